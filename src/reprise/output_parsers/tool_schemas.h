#pragma once

#include <string_view>
#include <utility>

#include "reprise/base/json.h"

namespace reprise::output_parsers {

/// The schemas of the tools of a request. Formats that write every argument as text between tags
/// need them: only the schema says whether `5` is a number or a text.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  /// `tools`: the array of a request to the OpenAI API.
  explicit ToolSchemas(Json tools) : tools_(std::move(tools)) {}

  /// The value that `text` stands for, as the schema of this parameter wants it. A text that does
  /// not fit its type, and a text without a schema, stays a text.
  [[nodiscard]] Json value_of(std::string_view function,
                              std::string_view parameter,
                              std::string_view text) const;
  /// Whether the schema of the function describes this parameter.
  [[nodiscard]] bool has(std::string_view function, std::string_view parameter) const;

 private:
  [[nodiscard]] const Json* find(std::string_view function, std::string_view parameter) const;

  Json tools_ = Json::array();
};

}  // namespace reprise::output_parsers
