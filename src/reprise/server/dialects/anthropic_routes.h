#pragma once

#include <memory>

#include "reprise/server/http/router.h"
#include "reprise/server/openai/text_generation.h"

namespace reprise::server {

/// Adds /v1/messages and /v1/messages/count_tokens, for clients of Anthropic's API.
void add_anthropic_routes(Router& router, const std::shared_ptr<const TextGeneration>& generation);

}  // namespace reprise::server
