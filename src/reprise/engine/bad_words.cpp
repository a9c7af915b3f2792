#include "reprise/engine/bad_words.h"

#include <string>
#include <utility>

namespace reprise::engine {

void tokenize_bad_words(sampling::SamplingParams& params, const tokenizer::Tokenizer& tokenizer) {
  params.bad_words_token_ids.clear();
  for (const std::string& word : params.bad_words) {
    const size_t begin = word.find_first_not_of(" \t\n\r\v\f");
    const std::string bare = begin == std::string::npos ? std::string() : word.substr(begin);
    std::vector<int32_t> at_start = tokenizer.encode(bare, {.add_special_tokens = false});
    std::vector<int32_t> after_space = tokenizer.encode(" " + bare, {.add_special_tokens = false});
    // If the tokenizer makes the space a separate token, the tokens after it equal the first form.
    const bool is_other_word = !at_start.empty() && !after_space.empty() &&
                               after_space.front() != at_start.front() &&
                               after_space.size() == at_start.size();
    if (!at_start.empty()) params.bad_words_token_ids.push_back(std::move(at_start));
    if (is_other_word) params.bad_words_token_ids.push_back(std::move(after_space));
  }
}

}  // namespace reprise::engine
