#include "reprise/base/error.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/use_tokenizer.h"

namespace reprise::fuzz {
void tokenizer_file(std::string_view input) {
  try {
    use_tokenizer(tokenizer::Tokenizer::from_json(input));
  } catch (const FileError&) {
    // The file is refused with a named error, or its pattern backtracks too much on the text.
  }
  try {
    (void)tokenizer::TokenizerConfig::from_json(input, "f");
  } catch (const FileError&) {
    // The same for tokenizer_config.json.
  }
}

}  // namespace reprise::fuzz
