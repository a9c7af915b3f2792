#pragma once

#include <string_view>

#include "reprise/chat_template/ast.h"
#include "reprise/chat_template/limits.h"

namespace reprise::chat_template {

/// Parses jinja2's language except for the parts that need a template loader or host code (extends,
/// block, include, import, autoescape) and recursive loops.
/// \throws TemplateError (syntax, limit)
[[nodiscard]] ast::Template parse_template(std::string_view source, const Limits& limits);

}  // namespace reprise::chat_template
