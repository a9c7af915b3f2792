#pragma once

#include <memory>

#include "reprise/server/http/router.h"
#include "reprise/server/openai/text_generation.h"

namespace reprise::server {

/// Adds OpenAI's Responses API: POST /v1/responses, and GET and DELETE of a response that was kept.
void add_responses_routes(Router& router, const std::shared_ptr<const TextGeneration>& generation);

}  // namespace reprise::server
