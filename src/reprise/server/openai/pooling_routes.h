#pragma once

#include <memory>

#include "reprise/server/http/router.h"
#include "reprise/server/openai/text_pooling.h"

namespace reprise::server {

/// Adds /v1/embeddings, /pooling, /classify, /score and /rerank, under all of vLLM's paths. A model
/// that generates text answers them with 400.
void add_pooling_routes(Router& router, const std::shared_ptr<const TextPooling>& pooling);

}  // namespace reprise::server
