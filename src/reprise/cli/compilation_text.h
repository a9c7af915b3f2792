#pragma once

#include <string>

#include "reprise/api/options/startup_report.h"
#include "reprise/base/json.h"

/// Describes the compilation of an engine.
namespace reprise::cli {

/// "3 VLLM_COMPILE"
[[nodiscard]] std::string level_text(const api::StartupReport& report);

/// "44 launches per decode step instead of 76 (-42 %)"
[[nodiscard]] std::string launches_text(const compile::CompilationReport& compilation);

/// One line: level, backend, cache, launches; or the reason why the model's own code runs, which it
/// also does at level 0.
[[nodiscard]] std::string compilation_line(const api::StartupReport& report);

/// More lines, indented: pieces, code and memory, seconds per stage. May be empty.
[[nodiscard]] std::string compilation_details(const compile::CompilationReport& compilation);

/// The members of "compilation" in --json. Counters have vLLM's names; counters that are 0 are left
/// out.
[[nodiscard]] Json compilation_to_json(const api::StartupReport& report);

}  // namespace reprise::cli
