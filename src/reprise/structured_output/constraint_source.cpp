#include "reprise/structured_output/constraint_source.h"

#include <utility>

namespace reprise::structured_output {

std::unique_ptr<TokenConstraint> start_constraint(const ConstraintSource& source,
                                                  const CompiledSpec& compiled) {
  std::unique_ptr<TokenConstraint> constraint = compiled.start();
  return source.reasoning ? after_reasoning(*source.reasoning, std::move(constraint))
                          : std::move(constraint);
}

}  // namespace reprise::structured_output
