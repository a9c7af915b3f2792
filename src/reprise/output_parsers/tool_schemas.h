#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "reprise/base/json.h"

namespace reprise::output_parsers {

/// The schemas of the tools of a request. Some formats write every argument as text, and models mix
/// types up: only the schema says whether `5` is a number or a text. Copies share the schemas.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  /// `tools`: the array of a request to the OpenAI API.
  explicit ToolSchemas(Json tools) : tools_(std::make_shared<const Json>(std::move(tools))) {}

  /// Gives the arguments of a call the types that the schema of `function` wants. A text becomes
  /// the first of null, integer, number, boolean, object and array that the schema allows and the
  /// text spells; any value becomes a text where only texts are allowed. A text that spells no
  /// allowed type becomes the JSON that it is. Arguments without a schema stay as they are.
  /// Source: vLLM 0.32, coerce_to_schema_type(); differs in that `$ref` is followed, and that only
  /// an object (array) counts as one.
  void retype(std::string_view function, Json& arguments) const;

 private:
  std::shared_ptr<const Json> tools_;  // null: no tools
};

}  // namespace reprise::output_parsers
