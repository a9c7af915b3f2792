#pragma once

#include <chrono>

#include "reprise/base/log.h"

namespace reprise::cli {

/// Ends the process with `exit_code` after `time`, if it has not ended by then. The destructors of
/// main() still have this time. They wait for threads that other programs may keep from the
/// processors, or that are in the middle of a long computation. Neither may keep a process alive
/// that was told to end. Returns at once; may be called several times, and the earliest end counts.
/// `log`: the form of the line on standard error that tells of such an end.
void end_process_after(std::chrono::milliseconds time,
                       int exit_code,
                       const LogOptions& log = {}) noexcept;

}  // namespace reprise::cli
