#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "reprise/server/dialects/chat_translator.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

enum class OllamaForm : uint8_t { chat, generate };

/// Writes an answer of ollama's API: an object, or a stream with an object in each line.
[[nodiscard]] std::unique_ptr<ChatTranslator> make_ollama_answer(OllamaForm form);

/// {"error": "why"}. Route's reshape_error.
[[nodiscard]] HttpResponse ollama_error(HttpResponse response);

/// "2026-11-28T15:04:05Z"
[[nodiscard]] std::string rfc3339(int64_t seconds);

}  // namespace reprise::server
