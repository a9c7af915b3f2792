#include "reprise/weights/gguf/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

/// The numbers under `key`, one per token; nullptr if the file has none.
const ArrayValue* numbers_of_tokens(const Metadata& metadata, std::string_view key, size_t count) {
  const ArrayValue* array = metadata.array(key);
  if (array == nullptr) return nullptr;
  if (array->type == ValueType::string || array->size() != count) {
    fail_tokenizer(metadata,
                   key,
                   fmt::format("must hold {} numbers, one per token; it holds {} {}",
                               count,
                               array->size(),
                               array->type == ValueType::string ? "strings" : "numbers"));
  }
  return array;
}

std::vector<TokenType> read_types(const Metadata& metadata, size_t count) {
  std::vector<TokenType> types(count, TokenType::normal);
  const ArrayValue* array = numbers_of_tokens(metadata, kTypesKey, count);
  if (array == nullptr) return types;
  for (size_t id = 0; id < count; ++id) {
    const double number = array->number(id);
    if (!(number >= 0 && number <= 6)) {
      fail_tokenizer(
          metadata, kTypesKey, fmt::format("token {} has type {}, expected 0 to 6", id, number));
    }
    types[id] = number == 0 ? TokenType::normal : static_cast<TokenType>(static_cast<int>(number));
  }
  return types;
}

}  // namespace

void fail_tokenizer(const Metadata& metadata, std::string_view key, std::string_view message) {
  throw FileError("E_TOKENIZER",
                  metadata.path(),
                  key,
                  fmt::format("{}; --tokenizer DIR uses the tokenizer of a model folder", message));
}

Vocabulary Vocabulary::read(const Metadata& metadata) {
  Vocabulary vocabulary;
  vocabulary.tokens = metadata.strings(kTokensKey);
  if (vocabulary.tokens == nullptr || vocabulary.tokens->empty()) {
    fail_tokenizer(metadata, kTokensKey, "is required: the texts of the tokens");
  }
  const size_t count = vocabulary.tokens->size();
  for (size_t id = 0; id < count; ++id) {
    if (is_valid_utf8((*vocabulary.tokens)[id])) continue;
    fail_tokenizer(metadata, kTokensKey, fmt::format("token {} is not UTF-8", id));
  }
  vocabulary.types = read_types(metadata, count);
  if (const ArrayValue* scores = numbers_of_tokens(metadata, kScoresKey, count)) {
    for (size_t id = 0; id < count; ++id) {
      const auto score = static_cast<float>(scores->number(id));
      if (std::isnan(score)) {
        fail_tokenizer(metadata, kScoresKey, fmt::format("token {} has a score of NaN", id));
      }
      vocabulary.scores.push_back(score);
    }
  }
  vocabulary.scores.resize(count, 0);  // as in llama.cpp, a token without a score has the score 0
  return vocabulary;
}

std::optional<int64_t> token_id(const Metadata& metadata,
                                std::string_view key,
                                const Vocabulary& vocabulary) {
  const auto id = metadata.integer(key, 0, std::numeric_limits<uint32_t>::max());
  if (id && std::cmp_greater_equal(*id, vocabulary.tokens->size())) return std::nullopt;
  return id;
}

std::vector<Merge> merges_by_score(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < vocabulary.tokens->size(); ++id) {
    const TokenType type = vocabulary.types[id];
    if (type == TokenType::normal || type == TokenType::user_defined) {
      ids.emplace((*vocabulary.tokens)[id], id);
    }
  }
  struct Scored {
    Merge merge;
    float score;
    size_t whole;
    size_t left;
    size_t right;
  };
  std::vector<Scored> scored;
  for (const auto& [text, id] : ids) {
    if (vocabulary.types[id] != TokenType::normal) continue;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(text.substr(cut));
      if (right == ids.end()) continue;
      scored.push_back({.merge = {.left = left->first, .right = right->first},
                        .score = vocabulary.scores[id],
                        .whole = id,
                        .left = left->second,
                        .right = right->second});
    }
  }
  // Descending scores; among equal scores, longer parts come first; the remaining comparisons make
  // the order complete.
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
    const auto length = [](std::string_view text) { return count_code_points(text); };
    const auto key = [&](const Scored& item) {
      return std::tuple(-item.score,
                        -static_cast<int64_t>(length(item.merge.left)),
                        -static_cast<int64_t>(length(item.merge.right)),
                        item.whole,
                        item.left,
                        item.right);
    };
    return key(a) < key(b);
  });
  std::vector<Merge> merges;
  merges.reserve(scored.size());
  for (const Scored& item : scored) merges.push_back(item.merge);
  return merges;
}

}  // namespace reprise::weights::gguf
