#pragma once

#include "reprise/base/json.h"
#include "reprise/server/dialects/chat_translator.h"

namespace reprise::server {

/// The body of POST /v1/messages as a chat. Source: Anthropic's Messages API. \throws ApiError 400
/// with the field at fault
[[nodiscard]] TranslatedChat read_anthropic_request(const Json& body);
/// The same for POST /v1/messages/count_tokens, whose body has no max_tokens. No answer.
[[nodiscard]] TranslatedChat read_anthropic_count_request(const Json& body);

}  // namespace reprise::server
