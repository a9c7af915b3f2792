#pragma once

#include "reprise/server/dialects/chat_translator.h"
#include "reprise/server/openai/text_generation.h"

namespace reprise::server {

/// Runs the chat; its answer goes through the translator. \throws ApiError with names of the client
[[nodiscard]] Answering prepare_translated(const TextGeneration& generation,
                                           TranslatedChat chat,
                                           const HttpRequest& from,
                                           api::TimePoint arrived);

}  // namespace reprise::server
