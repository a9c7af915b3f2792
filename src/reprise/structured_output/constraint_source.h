#pragma once

#include <memory>
#include <optional>

#include "reprise/structured_output/after_reasoning.h"
#include "reprise/structured_output/grammar_backend.h"
#include "reprise/structured_output/output_spec.h"

namespace reprise::structured_output {

/// The specification from which the constraint of an answer is made. A plain value.
struct ConstraintSource {
  OutputSpec spec;
  std::optional<ReasoningDelimiters> reasoning;  // the constraint begins after the reasoning

  friend bool operator==(const ConstraintSource&, const ConstraintSource&) = default;
};

/// The constraint of one answer. `compiled` is source.spec, compiled.
[[nodiscard]] std::unique_ptr<TokenConstraint> start_constraint(const ConstraintSource& source,
                                                                const CompiledSpec& compiled);

}  // namespace reprise::structured_output
