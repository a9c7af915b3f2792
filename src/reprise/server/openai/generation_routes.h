#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Adds /v1/completions and /v1/chat/completions. The borrowed arguments must outlive `router`. The
/// sampling parameters in `policy` are ignored: the engine's recommended ones replace them.
void add_generation_routes(Router& router,
                           const api::AsyncEngine& engine,
                           GenerationService& generations,
                           const ServedModel& model,
                           const PromptEncoder& prompts,
                           const AnswerReaderOptions& answers,
                           RequestPolicy policy);

}  // namespace reprise::server
