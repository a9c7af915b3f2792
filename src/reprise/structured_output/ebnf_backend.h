#pragma once

#include <memory>

#include "reprise/structured_output/grammar_backend.h"

namespace reprise::structured_output {

/// The backend for grammars in EBNF, which need a parser for context-free languages. `vocabulary`
/// outlives it. \throws InvalidArgument when this build has none
[[nodiscard]] std::unique_ptr<GrammarBackend> create_ebnf_backend(
    const VocabularyBytes& vocabulary);

}  // namespace reprise::structured_output
