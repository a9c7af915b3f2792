#pragma once

#include <string>

namespace reprise::api {
struct CompiledModel;
}

namespace reprise::cli {

/// What compiling came to, as `reprise dump` prints it. \pre something was compiled
[[nodiscard]] std::string dump_text(const api::CompiledModel& model, const std::string& name);
/// The same as one page without scripts or other files: well-formed XHTML with the picture inside.
[[nodiscard]] std::string dump_html(const api::CompiledModel& model, const std::string& name);
/// The picture alone.
[[nodiscard]] std::string dump_svg(const api::CompiledModel& model, const std::string& name);

}  // namespace reprise::cli
