#include "reprise/base/error.h"
#include "reprise/structured_output/grammar_backend.h"

namespace reprise::structured_output {

std::string_view why_unavailable() {
  return "this build has no structured output: run scripts/setup.sh, which downloads xgrammar, and "
         "build again";
}

std::unique_ptr<GrammarBackend> create_grammar_backend(VocabularyBytes /*vocabulary*/) {
  throw InvalidArgument(std::string(why_unavailable()));
}

}  // namespace reprise::structured_output
