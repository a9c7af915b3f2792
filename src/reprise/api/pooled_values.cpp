#include "reprise/api/pooled_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "reprise/tokenizer/tokenizer.h"

namespace reprise::api {
namespace {

// A sum of squares in double: the length does not depend on the size of the numbers.
double length_of(std::span<const float> vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

void normalize(std::vector<float>& vector) {
  const double length = length_of(vector);
  if (length == 0) return;
  for (float& value : vector) value = static_cast<float>(value / length);
}

// The scores of labels as probabilities. A softmax in double: large scores do not overflow.
void activate(weights::ClassifierActivation activation, std::vector<float>& scores) {
  using weights::ClassifierActivation;
  if (activation == ClassifierActivation::none) return;
  if (activation == ClassifierActivation::sigmoid) {
    for (float& score : scores) score = static_cast<float>(1 / (1 + std::exp(-double{score})));
    return;
  }
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - largest);
  for (float& score : scores) score = static_cast<float>(std::exp(score - largest) / sum);
}

}  // namespace

std::vector<float> pooled_values(std::vector<float> numbers,
                                 const weights::ClassifierConfig* classifier,
                                 std::optional<size_t> dimensions,
                                 bool is_activated) {
  if (dimensions) numbers.resize(std::min(*dimensions, numbers.size()));
  if (classifier == nullptr) {
    if (is_activated) normalize(numbers);
    return numbers;
  }
  // The logits of "no" and of "yes".
  if (!classifier->from_tokens.empty()) numbers = {numbers[1] - numbers[0]};
  if (is_activated) activate(classifier->activation, numbers);
  return numbers;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  const double product = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double lengths = length_of(a) * length_of(b);
  return lengths == 0 ? 0.0 : product / lengths;
}

EncodedTexts encode_texts(const EngineFrontend& engine,
                          std::string_view first,
                          std::string_view second) {
  const auto& classifier = engine.startup_report().classifier;
  const tokenizer::Tokenizer& tokenizer = engine.tokenizer();
  if (classifier && classifier->uses_chat_template) {
    const Json messages = {{{"role", "query"}, {"content", first}},
                           {{"role", "document"}, {"content", second}}};
    const ChatPrompt chat = engine.render_chat(messages, {.add_generation_prompt = false});
    return {.token_ids = tokenizer.encode(chat.text,
                                          {.add_special_tokens = true, .plain_at = chat.plain_at})};
  }
  if (classifier && !classifier->from_tokens.empty()) {
    return {.token_ids = tokenizer.encode(std::string(first) + std::string(second),
                                          {.add_special_tokens = true})};
  }
  tokenizer::EncodedPair pair = tokenizer.encode_pair(first, second, {.add_special_tokens = true});
  EncodedTexts texts{.token_ids = std::move(pair.ids)};
  if (pair.second_begin) texts.second_begin = static_cast<int32_t>(*pair.second_begin);
  return texts;
}

}  // namespace reprise::api
