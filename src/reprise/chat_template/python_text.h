#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reprise/chat_template/sandbox.h"

/// The printed forms of values: Python's str(), repr() and json.dumps(), byte for byte.
namespace reprise::chat_template {

[[nodiscard]] std::string float_repr(double value);
/// Python's repr() of a text, with Python's choice of quotes and escapes.
[[nodiscard]] std::string text_repr(std::string_view text);

/// str(value) as a new string, also for a text.
[[nodiscard]] std::string to_str(Sandbox& sandbox, const Value& value);
[[nodiscard]] std::string to_repr(Sandbox& sandbox, const Value& value);
/// str(value) as a value: the result shares the bytes of a text, and markup stays markup.
[[nodiscard]] Value to_text(Sandbox& sandbox, const Value& value);

/// json.dumps() parameters. The defaults are those of transformers' `tojson`, not jinja2's.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // the text of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// \throws TemplateError for values that JSON cannot hold (undefined, namespaces, generators,
/// ranges)
[[nodiscard]] std::string to_json(Sandbox& sandbox, const Value& value, const JsonStyle& style);

/// Replaces & < > ' " by entities.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace reprise::chat_template
