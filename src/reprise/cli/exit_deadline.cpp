#include "reprise/cli/exit_deadline.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>

namespace reprise::cli {
namespace {

/// Must not use any object of this process: other threads are destroying them. The line is left out
/// when standard error takes no bytes now.
[[noreturn]] void end_process(int exit_code, const LogOptions& log) noexcept {
  const std::string line = format_log_line(log,
                                           LogLevel::warning,
                                           "exit_deadline",
                                           "Some work did not end in time; the process ends "
                                           "without it.");
  pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }
  std::_Exit(exit_code);
}

}  // namespace

void end_process_after(std::chrono::milliseconds time,
                       int exit_code,
                       const LogOptions& log) noexcept {
  try {
    std::thread([time, exit_code, log] {
      std::this_thread::sleep_for(time);
      end_process(exit_code, log);
    }).detach();
  } catch (const std::system_error&) {
    // The system can start no more threads. The process then ends when all its work has ended.
    return;
  }
}

}  // namespace reprise::cli
