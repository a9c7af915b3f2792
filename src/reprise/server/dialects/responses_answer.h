#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "reprise/server/dialects/chat_translator.h"
#include "reprise/server/dialects/response_store.h"

namespace reprise::server {

/// The parts of a request to POST /v1/responses that its answer needs.
struct ResponsesShape {
  Json echo = Json::object();  // members that the answer repeats
  // Custom tools, whose input is text, by their names in the chat.
  std::set<std::string> custom_tools;
  // For tools in a namespace: from the name in the chat to the namespace and the name in it.
  std::map<std::string, std::pair<std::string, std::string>> spaces;
  Json messages = Json::array();         // the chat that is answered, without instructions
  std::shared_ptr<ResponseStore> store;  // null: the answer is not kept
};

/// Writes a response, or the events of its stream, under a new random id.
[[nodiscard]] std::unique_ptr<ChatTranslator> make_responses_answer(ResponsesShape shape);

}  // namespace reprise::server
