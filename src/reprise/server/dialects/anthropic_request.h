#pragma once

#include "reprise/base/json.h"
#include "reprise/server/dialects/chat_translator.h"

namespace reprise::server {

/// Turns the body of POST /v1/messages into a chat. Source: Anthropic's Messages API. \throws
/// ApiError 400 with the field at fault
[[nodiscard]] TranslatedChat read_anthropic_request(const Json& body);
/// The same for POST /v1/messages/count_tokens, whose body has no max_tokens and which generates no
/// answer.
[[nodiscard]] TranslatedChat read_anthropic_count_request(const Json& body);

}  // namespace reprise::server
