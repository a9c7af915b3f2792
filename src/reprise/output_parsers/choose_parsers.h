#pragma once

#include <string_view>

namespace reprise::output_parsers {

/// The parsers that fit a model. An empty name: none fits, or more than one does.
struct ChosenParsers {
  std::string_view tool_call_parser;
  std::string_view reasoning_parser;

  friend bool operator==(const ChosenParsers&, const ChosenParsers&) = default;
};

/// Chooses by the markers in the text of the model's chat template: the template shows the model
/// how earlier calls and thoughts were written, and the model writes new ones in the same way.
[[nodiscard]] ChosenParsers parsers_of_template(std::string_view chat_template) noexcept;

}  // namespace reprise::output_parsers
