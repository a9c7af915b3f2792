#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/fuzz/targets.h"
#include "tests/support/source_dir.h"

namespace reprise::fuzz {
namespace {

tokenizer::Tokenizer golden(std::string_view kind) {
  return tokenizer::Tokenizer::from_json(tokenizer::read_text_file(
      fmt::format("{}/tests/goldens/tokenizers/{}.tokenizer.json", source_dir(), kind)));
}

/// Three tokenizers: one of bytes, one of words with a normalizer, and a Unigram model with a
/// character map.
const std::array<tokenizer::Tokenizer, 3>& tokenizers() {
  static const std::array<tokenizer::Tokenizer, 3> kTokenizers = {
      tokenizer::Tokenizer::load(source_dir() + "/models/reprise-tiny"),
      golden("llama2"),
      golden("t5")};
  return kTokenizers;
}

}  // namespace

void tokenizer_text(std::string_view input) {
  const bool is_text = is_valid_utf8(input);
  for (const tokenizer::Tokenizer& tokenizer : tokenizers()) {
    // The unknown token is not a control token, although files mark it as special.
    const auto is_control = [&](int32_t id) {
      return tokenizer.is_special(id) && tokenizer.token_to_id("<unk>") != id;
    };
    const std::vector<int32_t> ids = tokenizer.encode(input, {.add_special_tokens = false});
    for (const int32_t id : ids) {
      require(tokenizer.id_to_token(id).has_value(), "every id of a text has a token");
    }
    const std::string text = tokenizer.decode(ids, false);
    require(is_valid_utf8(text), "a decoded text is UTF-8");
    const std::vector<int32_t> plain =
        tokenizer.encode(input, {.add_special_tokens = false, .parse_special = false});
    require(std::none_of(plain.begin(), plain.end(), is_control),
            "a plain text has no control tokens");
    const std::vector<size_t> found = tokenizer.find_control_tokens(input);
    require(std::is_sorted(found.begin(), found.end()), "control tokens are found in order");
    // With every control token marked as plain, a text of users cannot act as one.
    const std::vector<int32_t> marked =
        tokenizer.encode(input, {.add_special_tokens = false, .plain_at = found});
    require(!is_text || std::none_of(marked.begin(), marked.end(), is_control),
            "a marked control token is plain text");
  }
  if (is_text) {
    // The normalizer may change a text, but must not change the result again.
    const tokenizer::Tokenizer& byte_level = tokenizers().front();
    const auto through = [&](std::string_view text) {
      return byte_level.decode(byte_level.encode(text, {.add_special_tokens = false}), false);
    };
    const std::string text = through(input);
    require(through(text) == text, "a byte-level tokenizer loses nothing of a normalized text");
  }
}

}  // namespace reprise::fuzz
