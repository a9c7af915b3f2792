#pragma once

#include <cstdint>
#include <string>

#include "reprise/base/json.h"
#include "reprise/server/dialects/chat_translator.h"
#include "reprise/server/dialects/ollama_answer.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {

/// Turns the body of POST /api/chat into a chat. Source: ollama's API. \throws ApiError 400 with
/// the field at fault
[[nodiscard]] TranslatedChat read_ollama_chat(const Json& body);
/// The same for POST /api/generate: one prompt and perhaps a system message; a raw prompt is a
/// text.
[[nodiscard]] TranslatedChat read_ollama_generate(const Json& body);

/// Whether the body of POST /api/chat has no message, or that of POST /api/generate no prompt: in
/// ollama's API such a body loads a model, or with "keep_alive" 0 frees it. \throws ApiError 400
[[nodiscard]] bool asks_ollama_to_load(const RequestFields& fields, OllamaForm form);

enum class OllamaVectors : uint8_t {
  embed,       // POST /api/embed: one vector of length 1 for each text of `input`
  embeddings,  // POST /api/embeddings, its predecessor: one vector of `prompt`, of any length
};
/// Turns the body of a request for vectors into one of /v1/embeddings. \throws ApiError 400 with
/// the field at fault
[[nodiscard]] Json read_ollama_vectors(const RequestFields& fields, OllamaVectors form);

/// The model that a body names, as "model" or "name", without the tag ":latest". \throws ApiError
/// 400 if the body names none
[[nodiscard]] std::string ollama_model(const RequestFields& fields);

}  // namespace reprise::server
