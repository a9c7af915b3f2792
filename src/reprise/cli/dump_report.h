#pragma once

#include <string>

namespace reprise::api {
struct CompiledModel;
}

namespace reprise::cli {

/// The result of compiling as text, for `reprise dump`. \pre the model was compiled
[[nodiscard]] std::string dump_text(const api::CompiledModel& model, const std::string& name);
/// The same as one page without scripts or other files: well-formed XHTML that contains the
/// picture.
[[nodiscard]] std::string dump_html(const api::CompiledModel& model, const std::string& name);
/// Only the picture.
[[nodiscard]] std::string dump_svg(const api::CompiledModel& model, const std::string& name);

}  // namespace reprise::cli
