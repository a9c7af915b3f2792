#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// /v1/embeddings, /pooling, /classify, /score and /rerank, under all of vLLM's paths. A model that
/// generates text answers them with 400. All references must outlive the router.
void add_pooling_routes(Router& router,
                        const api::AsyncEngine& engine,
                        GenerationService& generations,
                        const ServedModel& model,
                        const PromptEncoder& prompts);

}  // namespace reprise::server
