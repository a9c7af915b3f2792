#pragma once

#include <memory>

#include "reprise/server/dialects/chat_translator.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// Writes a message of Anthropic's Messages API, or the events of its stream.
[[nodiscard]] std::unique_ptr<ChatTranslator> make_anthropic_answer();

/// {"type": "error", "error": {"type", "message"}} with that API's names of kinds. Route's
/// reshape_error.
[[nodiscard]] HttpResponse anthropic_error(HttpResponse response);

}  // namespace reprise::server
