#include "reprise/scheduler/allowed_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::scheduler {
namespace {

bool is_among(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

void check_some_token_is_allowed(const sampling::SamplingParams& params,
                                 std::span<const int32_t> eos_token_ids) {
  if (params.allowed_token_ids.empty()) return;
  const bool suppresses_ends = params.min_tokens > 0;
  const bool some_is_allowed = std::any_of(
      params.allowed_token_ids.begin(), params.allowed_token_ids.end(), [&](int32_t id) {
        const auto is_bad_word = [id](const std::vector<int32_t>& word) {
          return word.size() == 1 && word[0] == id;
        };
        return !(suppresses_ends &&
                 (is_among(eos_token_ids, id) || is_among(params.stop_token_ids, id))) &&
               std::none_of(params.bad_words_token_ids.begin(),
                            params.bad_words_token_ids.end(),
                            is_bad_word);
      });
  if (some_is_allowed) return;
  throw InvalidArgument(fmt::format(
      "allowed_token_ids allows {} tokens, but {} forbid all of them; allow another token",
      params.allowed_token_ids.size(),
      suppresses_ends ? "min_tokens (which forbids EOS and stop tokens) and bad_words"
                      : "bad_words"));
}

}  // namespace reprise::scheduler
