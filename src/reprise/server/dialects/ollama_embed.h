#pragma once

#include "reprise/server/dialects/ollama_request.h"
#include "reprise/server/openai/text_pooling.h"

namespace reprise::server {

/// Runs a request for vectors of ollama's API as one of /v1/embeddings. Source: ollama's API.
/// \throws ApiError
[[nodiscard]] Answering prepare_ollama_vectors(const TextPooling& pooling,
                                               OllamaVectors form,
                                               const HttpRequest& request);

}  // namespace reprise::server
