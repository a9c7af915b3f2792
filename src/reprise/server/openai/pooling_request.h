#pragma once

#include <string_view>

#include "reprise/server/openai/generation_request.h"

namespace reprise::server {

/// The largest number of texts in one request for vectors.
inline constexpr size_t kMaxTexts = 2048;  // OpenAI's bound

/// How the model of the server answers: with a vector of each text, or with scores of labels.
struct PooledModel {
  bool normalizes = true;  // its vectors have length 1 unless the request says otherwise
  const weights::ClassifierConfig* classifier = nullptr;  // as in PoolingParameters
  const weights::MatryoshkaConfig* matryoshka = nullptr;  // nullptr: its vectors may not be cut
};

/// The body of a route for vectors, as vLLM reads it: `input` of /v1/embeddings, /pooling and
/// /classify, `text_1` and `text_2` of /score, `query` and `documents` of /rerank.
/// \throws ApiError 400 with the field at fault
[[nodiscard]] GenerationRequest parse_pooling_request(std::string_view body,
                                                      PoolingApi api,
                                                      const PooledModel& model);

}  // namespace reprise::server
