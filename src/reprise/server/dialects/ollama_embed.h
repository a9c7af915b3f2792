#pragma once

#include "reprise/server/dialects/ollama_request.h"
#include "reprise/server/openai/text_pooling.h"

namespace reprise::server {

/// Runs ollama's request for vectors as a request to /v1/embeddings. Source: ollama's API. \throws
/// ApiError
[[nodiscard]] Answering prepare_ollama_vectors(const TextPooling& pooling,
                                               OllamaVectors form,
                                               const HttpRequest& request);

}  // namespace reprise::server
