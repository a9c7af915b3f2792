#pragma once

#include <memory>

#include "reprise/server/http/router.h"
#include "reprise/server/openai/text_generation.h"

namespace reprise::server {

/// Adds /v1/completions and /v1/chat/completions.
void add_generation_routes(Router& router, const std::shared_ptr<const TextGeneration>& generation);

}  // namespace reprise::server
