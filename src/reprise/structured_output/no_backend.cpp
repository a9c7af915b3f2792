#include "reprise/base/error.h"
#include "reprise/structured_output/ebnf_backend.h"

namespace reprise::structured_output {

std::unique_ptr<GrammarBackend> create_ebnf_backend(const VocabularyBytes& /*vocabulary*/) {
  throw InvalidArgument(
      "this build has no grammars in EBNF: run scripts/setup.sh, which downloads xgrammar, and "
      "build again; JSON schemas, patterns, choices and structural tags work without it");
}

}  // namespace reprise::structured_output
