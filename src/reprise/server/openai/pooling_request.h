#pragma once

#include <string_view>

#include "reprise/server/openai/generation_request.h"

namespace reprise::server {

/// The most texts of one request for vectors.
inline constexpr size_t kMaxTexts = 2048;  // OpenAI's bound

/// The body of a route for vectors, as vLLM reads it: `input` of /v1/embeddings and /pooling,
/// `text_1` and `text_2` of /score, `query` and `documents` of /rerank. `normalizes`: whether the
/// model's vectors have length 1 unless the request says otherwise.
/// \throws ApiError 400 with the field at fault
[[nodiscard]] GenerationRequest parse_pooling_request(std::string_view body,
                                                      PoolingApi api,
                                                      bool normalizes);

}  // namespace reprise::server
