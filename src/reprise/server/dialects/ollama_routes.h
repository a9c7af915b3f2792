#pragma once

#include <memory>
#include <string>

#include "reprise/server/http/router.h"
#include "reprise/server/openai/text_generation.h"
#include "reprise/server/openai/text_pooling.h"

namespace reprise::server {

/// Adds the routes of ollama's API for answers, and those with which its clients find the model:
/// /api/chat, generate, embed, embeddings, tags, ps, show and version. `version` is this program's.
void add_ollama_routes(Router& router,
                       const std::shared_ptr<const TextGeneration>& generation,
                       const std::shared_ptr<const TextPooling>& pooling,
                       const std::string& version);

}  // namespace reprise::server
