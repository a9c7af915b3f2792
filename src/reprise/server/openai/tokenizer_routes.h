#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Adds /tokenize, /detokenize and /tokenizer_info. The borrowed arguments must outlive `router`.
void add_tokenizer_routes(Router& router,
                          const api::AsyncEngine& engine,
                          const ServedModel& model,
                          const RequestPolicy& policy);

}  // namespace reprise::server
