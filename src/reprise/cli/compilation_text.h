#pragma once

#include <cstddef>
#include <string>

#include "reprise/api/startup_report.h"
#include "reprise/base/json.h"

namespace reprise::api {
class LLM;
}

/// Describes the compilation of an engine. `traced_launches`: launches of the traced program; 0
/// when unknown, for example after a cache hit.
namespace reprise::cli {

/// "3 VLLM_COMPILE"
[[nodiscard]] std::string level_text(const api::StartupReport& report);

/// "44 launches per decode step instead of 76 (-42 %)"
[[nodiscard]] std::string launches_text(size_t compiled_launches, size_t traced_launches);

/// One line: level, backend, cache, launches; or the reason why the model runs its own code, as it
/// does at level 0.
[[nodiscard]] std::string compilation_line(const api::StartupReport& report,
                                           size_t traced_launches);

/// More lines, indented: pieces, code and memory, seconds per stage. May be empty.
[[nodiscard]] std::string compilation_details(const compile::CompilationReport& compilation);

/// The members of "compilation" in --json. Counters have vLLM's names; counters that are 0 are left
/// out.
[[nodiscard]] Json compilation_to_json(const api::StartupReport& report, size_t traced_launches);

/// Launches of the traced model: from the report, or by tracing the model again after a cache hit.
[[nodiscard]] size_t find_traced_launches(api::LLM& llm);

}  // namespace reprise::cli
