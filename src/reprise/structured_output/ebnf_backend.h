#pragma once

#include <memory>

#include "reprise/structured_output/grammar_backend.h"

namespace reprise::structured_output {

/// The backend for grammars in EBNF, which need a parser for context-free languages. `vocabulary`
/// must outlive it. \throws InvalidArgument if this build has no such backend
[[nodiscard]] std::unique_ptr<GrammarBackend> create_ebnf_backend(
    const VocabularyBytes& vocabulary);

}  // namespace reprise::structured_output
