#pragma once

#include <cstdint>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Adds /tokenize, /detokenize and /tokenizer_info. Answers of more than `max_answer_bytes` are
/// refused with 400. The borrowed arguments must outlive `router`.
void add_tokenizer_routes(Router& router,
                          const api::AsyncEngine& engine,
                          const ServedModel& model,
                          const RequestPolicy& policy,
                          int64_t max_answer_bytes);

}  // namespace reprise::server
