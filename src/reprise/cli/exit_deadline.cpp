#include "reprise/cli/exit_deadline.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>

namespace reprise::cli {
namespace {

/// Nothing of this process may be used here: other threads are destroying it. The line is left out
/// when standard error takes no bytes now.
[[noreturn]] void end_process(int exit_code) noexcept {
  constexpr std::string_view kLine =
      "WARNING:  Some work did not end in time; the process ends without it.\n";
  pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
    (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
  }
  std::_Exit(exit_code);
}

}  // namespace

void end_process_after(std::chrono::milliseconds time, int exit_code) noexcept {
  try {
    std::thread([time, exit_code] {
      std::this_thread::sleep_for(time);
      end_process(exit_code);
    }).detach();
  } catch (const std::system_error&) {
    // The system has no thread left. The process then ends when all its work has ended.
  }
}

}  // namespace reprise::cli
