#pragma once

#include <memory>

#include "reprise/structured_output/token_constraint.h"

namespace reprise::structured_output {

struct ReasoningMarks {
  int32_t start = 0;
  int32_t end = 0;
  bool begins_inside = false;  // the prompt has opened the reasoning
};

/// Lets reasoning be anything; what follows its end token is for `rest`. Where the prompt has not
/// opened it, reasoning has to begin with the first token.
[[nodiscard]] std::unique_ptr<TokenConstraint> after_reasoning(
    const ReasoningMarks& marks, std::unique_ptr<TokenConstraint> rest);

}  // namespace reprise::structured_output
