#pragma once

#include <memory>

#include "reprise/structured_output/token_constraint.h"

namespace reprise::structured_output {

struct ReasoningDelimiters {
  int32_t start = 0;
  int32_t end = 0;
  bool begins_inside = false;  // true if the prompt has begun the reasoning

  friend bool operator==(const ReasoningDelimiters&, const ReasoningDelimiters&) = default;
};

/// Leaves the reasoning free and applies `rest` to the text after its end token. If the prompt has
/// not begun the reasoning, the answer must begin with the reasoning's start token.
[[nodiscard]] std::unique_ptr<TokenConstraint> after_reasoning(
    const ReasoningDelimiters& delimiters, std::unique_ptr<TokenConstraint> rest);

}  // namespace reprise::structured_output
