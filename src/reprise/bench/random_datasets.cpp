#include "reprise/bench/random_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "reprise/base/error.h"

namespace reprise::bench {
namespace {

using tokenizer::Tokenizer;

// In some vocabularies pieces merge in such a way that no cut gives exactly the wanted length.
constexpr int kMaxTries = 10;

void require_length(std::string_view option, int64_t value, int64_t lowest) {
  constexpr int64_t kLongest = int64_t{1} << 24;
  if (value >= lowest && value <= kLongest) return;
  throw InvalidArgument(fmt::format("{}: {} is not in {}..{}", option, value, lowest, kLongest));
}

std::vector<int32_t> plain_encode(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.add_special_tokens = false});
}

// Text that tokenizes to `length` tokens. Neighbouring tokens may merge or split when their text is
// tokenized again, so the text is cut or extended until the number is right, as in vLLM.
SampleRequest exact_prompt(const Tokenizer& tokenizer,
                           std::vector<int32_t> ids,
                           std::span<const int32_t> filler,
                           RandomSource& random) {
  const size_t length = ids.size();
  SampleRequest request{.prompt = tokenizer.decode(ids)};
  std::vector<int32_t> again = plain_encode(tokenizer, request.prompt);
  for (int i = 0; i < kMaxTries && again.size() != length; ++i) {
    again.resize(std::min(again.size(), length));
    while (again.size() < length) {
      const int64_t pick = random.integer(0, static_cast<int64_t>(filler.size()) - 1);
      again.push_back(filler[static_cast<size_t>(pick)]);
    }
    request.prompt = tokenizer.decode(again);
    again = plain_encode(tokenizer, request.prompt);
  }
  request.prompt_len = static_cast<int64_t>(again.size());
  return request;
}

std::vector<int32_t> random_ids(std::span<const int32_t> plain,
                                int64_t count,
                                RandomSource& random) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(
        plain[static_cast<size_t>(random.integer(0, static_cast<int64_t>(plain.size()) - 1))]);
  }
  return ids;
}

struct Range {
  int64_t low;
  int64_t high;
};
Range range_around(int64_t length, double ratio) {
  const auto value = static_cast<double>(length);
  return {static_cast<int64_t>(std::floor(value * (1 - ratio))),
          static_cast<int64_t>(std::ceil(value * (1 + ratio)))};
}

}  // namespace

// A token with half a character would become several tokens when its text is tokenized again.
std::vector<int32_t> plain_token_ids(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  std::vector<int32_t> lasting;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.id_to_token(id) || tokenizer.is_special(id)) continue;
    ids.push_back(id);
    const std::vector<int32_t> alone = {id};
    if (plain_encode(tokenizer, tokenizer.decode(alone)) == alone) lasting.push_back(id);
  }
  if (ids.empty()) throw InvalidArgument("the tokenizer has no token that is plain text");
  return lasting.empty() ? ids : lasting;
}

std::vector<SampleRequest> make_random_requests(const DatasetOptions& options,
                                                const DatasetTools& tools,
                                                RandomSource& random) {
  const double ratio = options.random_range_ratio;
  if (!(ratio >= 0 && ratio < 1)) {
    throw InvalidArgument(fmt::format("--random-range-ratio: {} is not in [0, 1)", ratio));
  }
  require_length("--random-input-len", options.random_input_len, 1);
  require_length("--random-output-len", options.random_output_len, 1);
  require_length("--random-prefix-len", options.random_prefix_len, 0);
  const Tokenizer& tokenizer = *tools.tokenizer;
  const std::vector<int32_t> plain = plain_token_ids(tokenizer);
  // The server adds these special tokens to each prompt, and they count as input.
  const auto num_special = static_cast<int64_t>(tokenizer.encode("").size());
  const Range inputs =
      range_around(std::max<int64_t>(options.random_input_len - num_special, 0), ratio);
  const Range outputs = range_around(options.random_output_len, ratio);
  const std::vector<int32_t> prefix = random_ids(plain, options.random_prefix_len, random);

  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < options.num_prompts; ++i) {
    const int64_t input_len = random.integer(inputs.low, inputs.high);
    const int64_t output_len = random.integer(std::max<int64_t>(outputs.low, 1), outputs.high);
    const int64_t offset = random.integer(0, static_cast<int64_t>(plain.size()) - 1);
    std::vector<int32_t> ids = prefix;
    for (int64_t k = 0; k < input_len; ++k) {
      ids.push_back(plain[static_cast<size_t>(offset + i + k) % plain.size()]);
    }
    SampleRequest request = exact_prompt(tokenizer, std::move(ids), plain, random);
    request.output_len = output_len;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<SampleRequest> make_prefix_repetition_requests(const DatasetOptions& options,
                                                           const DatasetTools& tools,
                                                           RandomSource& random) {
  require_length("--prefix-repetition-prefix-len", options.prefix_repetition_prefix_len, 0);
  require_length("--prefix-repetition-suffix-len", options.prefix_repetition_suffix_len, 1);
  require_length("--prefix-repetition-output-len", options.prefix_repetition_output_len, 1);
  require_length("--prefix-repetition-num-prefixes", options.prefix_repetition_num_prefixes, 1);
  const int32_t per_prefix = options.num_prompts / options.prefix_repetition_num_prefixes;
  if (per_prefix == 0) {
    throw InvalidArgument(
        fmt::format("--num-prompts: {} is fewer than --prefix-repetition-num-prefixes {}; each "
                    "prefix needs one",
                    options.num_prompts,
                    options.prefix_repetition_num_prefixes));
  }
  const Tokenizer& tokenizer = *tools.tokenizer;
  const std::vector<int32_t> plain = plain_token_ids(tokenizer);
  std::vector<SampleRequest> requests;
  for (int32_t i = 0; i < options.prefix_repetition_num_prefixes; ++i) {
    std::vector<int32_t> drawn = random_ids(plain, options.prefix_repetition_prefix_len, random);
    const std::string prefix = exact_prompt(tokenizer, std::move(drawn), plain, random).prompt;
    const std::vector<int32_t> prefix_ids = plain_encode(tokenizer, prefix);
    for (int32_t k = 0; k < per_prefix; ++k) {
      std::vector<int32_t> ids = prefix_ids;
      const std::vector<int32_t> suffix =
          random_ids(plain, options.prefix_repetition_suffix_len, random);
      ids.insert(ids.end(), suffix.begin(), suffix.end());
      SampleRequest request = exact_prompt(tokenizer, std::move(ids), plain, random);
      request.output_len = options.prefix_repetition_output_len;
      requests.push_back(std::move(request));
    }
  }
  random.shuffle(requests);
  return requests;
}

}  // namespace reprise::bench
