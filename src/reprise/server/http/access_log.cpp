#include "reprise/server/http/access_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  lines_->write(std::move(line));
}

}  // namespace reprise::server
