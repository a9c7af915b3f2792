#include "reprise/server/http/access_log.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "reprise/server/http/http_exchange.h"

namespace reprise::server {
namespace {

std::string_view path_of(std::string_view request_line) {
  std::string_view rest =
      request_line.substr(std::min(request_line.find(' '), request_line.size()));
  if (!rest.empty()) rest.remove_prefix(1);
  return rest.substr(0, rest.find_first_of(" ?"));
}

}  // namespace

void AccessLog::write(std::string_view peer, std::string_view request_line, int status) const {
  if (!is_on_) return;
  const std::string_view path = path_of(request_line);
  if (std::find(unlogged_paths_.begin(), unlogged_paths_.end(), path) != unlogged_paths_.end()) {
    return;
  }
  std::string line = fmt::format(
      "INFO:     {} - \"{}\" {} {}\n", peer, request_line, status, reason_phrase(status));
  // Control characters that a client sent must not reach the terminal.
  const size_t num_bytes = line.size() - 1;
  std::replace_if(
      line.begin(),
      line.begin() + static_cast<ptrdiff_t>(num_bytes),
      [](char c) { return c < ' ' || c > '~'; },
      '?');
  // A pipe that is ready takes at least PIPE_BUF bytes, and a line is shorter than that.
  pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace reprise::server
