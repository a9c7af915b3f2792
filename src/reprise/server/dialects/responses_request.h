#pragma once

#include <memory>

#include "reprise/base/json.h"
#include "reprise/server/dialects/chat_translator.h"
#include "reprise/server/dialects/response_store.h"

namespace reprise::server {

/// Turns the body of POST /v1/responses into a chat. Source: OpenAI's Responses API. `store` has
/// the responses that the body may name; the answer is added to it unless the body says `store:
/// false`. \throws ApiError 400 with the field at fault; 404 for an unknown previous_response_id
[[nodiscard]] TranslatedChat read_responses_request(const Json& body,
                                                    const std::shared_ptr<ResponseStore>& store);

}  // namespace reprise::server
