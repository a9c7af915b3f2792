#include "reprise/base/error.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/tokenizer/vocabulary_files/sentencepiece_tokenizer.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/use_tokenizer.h"

namespace reprise::fuzz {

void sentencepiece(std::string_view input) {
  for (const char* name : {"", "XLMRobertaTokenizer", "T5Tokenizer", "AlbertTokenizer"}) {
    try {
      tokenizer::FolderSettings settings;
      settings.tokenizer_class = name;
      const auto file = tokenizer::SentencePieceFile::read(input, "f");
      use_tokenizer(tokenizer::Tokenizer::from_file(
          tokenizer::sentencepiece_tokenizer(file, settings, "f"), "f", {}));
    } catch (const FileError&) {
      // The file is refused with a named error.
    }
  }
}

}  // namespace reprise::fuzz
