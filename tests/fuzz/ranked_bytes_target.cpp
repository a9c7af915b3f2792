#include "reprise/base/error.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/tokenizer/vocabulary_files/ranked_bytes.h"
#include "reprise/tokenizer/vocabulary_files/tekken_file.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/use_tokenizer.h"

namespace reprise::fuzz {
namespace {

template <typename Read>
void read_and_use(Read&& read) {
  try {
    use_tokenizer(tokenizer::Tokenizer::from_file(read(), "f", {}));
  } catch (const FileError&) {
    // The file is refused with a named error, or its pattern backtracks too much on the text.
  }
}

}  // namespace

void ranked_bytes(std::string_view input) {
  tokenizer::FolderSettings settings;
  read_and_use([&] { return tokenizer::tekken_tokenizer(settings, input, "f"); });
  settings.tokenizer_class = "QWenTokenizer";
  read_and_use([&] { return tokenizer::tiktoken_tokenizer(settings, input, "f"); });
}

}  // namespace reprise::fuzz
