#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/options/startup_report.h"

namespace reprise::server {

/// The routes for vectors of texts. They differ in what they compute from the vectors.
enum class PoolingApi : uint8_t {
  embeddings,  // the vectors, as OpenAI sends them
  pooling,     // the vectors, as vLLM sends them
  score,       // how similar pairs of texts are
  rerank,      // documents in the order of their similarity to a query
  classify,    // the probability of each label of a classifier
};

/// The form of the answer to a request for vectors.
struct PoolingParameters {
  PoolingApi api = PoolingApi::embeddings;
  bool is_base64 = false;  // vectors as the base64 of float32 values, not as lists of numbers
  std::optional<size_t> dimensions;  // how many numbers of a vector are kept; absent: all
  bool normalizes = true;            // vectors have length 1; scores of labels become probabilities
  /// The classifier of a model that gives scores of labels; nullptr: the model gives vectors. Owned
  /// by the engine's report.
  const weights::ClassifierConfig* classifier = nullptr;
  /// score and rerank: this many first texts of the request are compared with the other texts. A
  /// single query is compared with each of the others; several queries are compared with one text
  /// each.
  size_t num_queries = 0;
  std::vector<std::string> documents;  // rerank: the texts that the answer repeats
  std::optional<size_t> top_n;         // rerank: the largest number of documents in the answer

  /// The model reads both texts of a pair at once.
  [[nodiscard]] bool compares_pairs() const noexcept {
    return classifier != nullptr && (api == PoolingApi::score || api == PoolingApi::rerank);
  }
};

/// The beginning of an answer's id: "embd-".
[[nodiscard]] std::string_view pooling_id_prefix(PoolingApi api) noexcept;

}  // namespace reprise::server
