#pragma once

#include <filesystem>
#include <iosfwd>

#include "reprise/engine/step_profiler.h"

namespace reprise::engine {

/// Writes a profile as JSON in the trace event format, which Perfetto and chrome://tracing open.
/// Each step is one slice that is named after the graph that it replayed; its phases are slices
/// inside. Times are microseconds since the start of the profile, with three decimals.
void write_trace(const StepProfile& profile, std::ostream& out);

/// Writes the trace as a new file in `folder` and returns its path. Creates the folder if it is
/// missing. The file appears only when it is complete. \throws Error when it cannot be written
std::filesystem::path save_trace(const StepProfile& profile, const std::filesystem::path& folder);

}  // namespace reprise::engine
