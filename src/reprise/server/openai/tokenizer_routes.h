#pragma once

#include <cstdint>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/served_model.h"
#include "reprise/server/openai/tokenize_request.h"

namespace reprise::server {

/// The tokens of a text or a conversation. \throws ApiError 404 for an unknown model; the errors of
/// the chat template and of the tokenizer; Abandoned from `work`
[[nodiscard]] std::vector<int32_t> token_ids_of(const TokenizeRequest& wanted,
                                                const api::AsyncEngine& engine,
                                                const ServedModel& model,
                                                const WorkLimit& work);

/// Adds /tokenize, /detokenize and /tokenizer_info. Answers of more than `max_answer_bytes` are
/// refused with 400. The borrowed arguments must outlive `router`.
void add_tokenizer_routes(Router& router,
                          const api::AsyncEngine& engine,
                          const ServedModel& model,
                          const RequestPolicy& policy,
                          int64_t max_answer_bytes);

}  // namespace reprise::server
