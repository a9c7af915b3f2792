#include "reprise/server/openai/answer_message.h"

#include <fmt/format.h>

#include <random>

namespace reprise::server {
namespace {

/// A new unique id, so that the result of a call can name its call.
std::string new_call_id() {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::random_device random;
  std::string id = "chatcmpl-tool-";
  for (int i = 0; i < 16; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

void add_reasoning(const std::string& reasoning, Json& members) {
  if (reasoning.empty()) return;
  members["reasoning"] = reasoning;
  members["reasoning_content"] = reasoning;  // the older name, which some clients still read
}

}  // namespace

Json AnswerMessage::take(const output_parsers::MessageDelta& delta) {
  Json members = Json::object();
  reasoning_ += delta.reasoning;
  add_reasoning(delta.reasoning, members);
  for (const output_parsers::ToolCallDelta& call : delta.tool_calls) {
    const auto index = static_cast<size_t>(call.index);
    Json json = {{"index", call.index}};
    if (index == calls_.size()) {
      calls_.push_back({.id = new_call_id(), .name = call.name});
      json["id"] = calls_[index].id;
      json["type"] = "function";
      json["function"] = {{"name", call.name}, {"arguments", call.arguments}};
    } else {
      json["function"] = {{"arguments", call.arguments}};
    }
    calls_[index].arguments += call.arguments;
    members["tool_calls"].push_back(std::move(json));
  }
  return members;
}

Json AnswerMessage::whole() const {
  Json members = Json::object();
  add_reasoning(reasoning_, members);
  for (const Call& call : calls_) {
    members["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return members;
}

}  // namespace reprise::server
