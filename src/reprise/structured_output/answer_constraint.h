#pragma once

#include <memory>

#include "reprise/structured_output/answer_program.h"
#include "reprise/structured_output/grammar_backend.h"
#include "reprise/structured_output/leaf_masks.h"

namespace reprise::structured_output {

/// The masks that all answers of a backend share: those of the vocabulary, and those of usual
/// strings.
struct SharedMasks {
  explicit SharedMasks(VocabularyBytes vocabulary);

  LeafMasks tokens;
  std::shared_ptr<const Automaton> any_text;  // every text
  LeafMaskCache of_any_text;
};

/// Wraps a program as a spec that can constrain answers.
[[nodiscard]] std::shared_ptr<const CompiledSpec> compiled_program(
    std::shared_ptr<const AnswerProgram> program, std::shared_ptr<SharedMasks> shared);

}  // namespace reprise::structured_output
