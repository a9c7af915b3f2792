#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// /v1/completions and /v1/chat/completions. What is borrowed outlives `router`. The sampling
/// parameters of `policy` are those that the engine recommends, whatever it says.
void add_generation_routes(Router& router,
                           const api::AsyncEngine& engine,
                           GenerationService& generations,
                           const ServedModel& model,
                           const PromptEncoder& prompts,
                           const AnswerReaderOptions& answers,
                           RequestPolicy policy);

}  // namespace reprise::server
