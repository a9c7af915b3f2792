#include "reprise/server/dialects/responses_answer.h"

#include <fmt/format.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::server {
namespace {

std::string random_hex() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", random());
  return text;
}

Json response_usage(const Json& usage) {
  const auto detail = [&usage](const char* object, const char* member) {
    const Json details = usage.value(object, Json());
    return details.is_object() ? details.value(member, int64_t{0}) : int64_t{0};
  };
  return {{"input_tokens", usage["prompt_tokens"]},
          {"input_tokens_details",
           {{"cached_tokens", detail("prompt_tokens_details", "cached_tokens")}}},
          {"output_tokens", usage["completion_tokens"]},
          {"output_tokens_details",
           {{"reasoning_tokens", detail("completion_tokens_details", "reasoning_tokens")}}},
          {"total_tokens", usage["total_tokens"]}};
}

/// The log-probabilities of a chat's choice, in the form that a part of text has here.
Json logprobs_of(const Json& choice) {
  const Json& logprobs = choice["logprobs"];
  if (!logprobs.is_object() || !logprobs.contains("content")) return Json::array();
  return logprobs["content"].is_array() ? logprobs["content"] : Json::array();
}

Json text_part(const std::string& text, Json logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", std::move(logprobs)}};
}

/// The text that is the input of a custom tool's call.
std::string custom_input(const std::string& arguments) {
  const Json json = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  const bool is_whole = json.is_object() && json.contains("input") && json["input"].is_string();
  return is_whole ? json["input"].get<std::string>() : arguments;  // of an answer that was cut
}

class ResponsesAnswer final : public ChatTranslator {
 public:
  explicit ResponsesAnswer(ResponsesShape shape)
      : shape_(std::move(shape)), key_(random_hex()), id_("resp_" + key_) {}

  Json whole(const Json& completion) override {
    const Json& choice = completion["choices"][0];
    const Json& message = choice["message"];
    head_ = completion;
    usage_ = completion["usage"];
    finish_reason_ = choice["finish_reason"];
    std::string events;  // are written and dropped
    begin(events);
    if (const std::string text = message.value("reasoning", ""); !text.empty()) {
      add_text(Kind::reasoning, text, Json::array(), events);
    }
    if (message["content"].is_string() && message["content"] != "") {
      add_text(Kind::message, message["content"].get<std::string>(), logprobs_of(choice), events);
    }
    for (const Json& call : message.value("tool_calls", Json::array())) add_call(call, events);
    close(events);
    return finished();
  }

  std::string chunk(const Json& chunk) override {
    std::string events;
    usage_ = chunk["usage"];
    if (head_.is_null()) {
      head_ = {{"created", chunk["created"]}, {"model", chunk["model"]}};
      begin(events);
    }
    if (chunk["choices"].empty()) return events;
    const Json& choice = chunk["choices"][0];
    const Json& delta = choice["delta"];
    if (const std::string text = delta.value("reasoning", ""); !text.empty()) {
      add_text(Kind::reasoning, text, Json::array(), events);
    }
    if (delta.contains("content") && delta["content"].is_string() && delta["content"] != "") {
      add_text(Kind::message, delta["content"].get<std::string>(), logprobs_of(choice), events);
    }
    for (const Json& call : delta.value("tool_calls", Json::array())) add_call(call, events);
    if (!choice["finish_reason"].is_null()) finish_reason_ = choice["finish_reason"];
    return events;
  }

  std::string end() override {
    std::string events;
    close(events);
    const Json response = finished();
    event({{"type", "response." + response["status"].get<std::string>()}, {"response", response}},
          events);
    return events;
  }

  std::string error(const Json& error) override {
    std::string events;
    Json response = object("failed");
    response["error"] = {
        {"code", error.value("code", 500) >= 500 ? "server_error" : "invalid_prompt"},
        {"message", error["message"]}};
    event({{"type", "response.failed"}, {"response", std::move(response)}}, events);
    return events;
  }

 private:
  enum class Kind : uint8_t { none, reasoning, message, function_call, custom_tool_call };

  void event(Json data, std::string& events) {
    data["sequence_number"] = num_events_++;
    events += named_event(data);
  }

  void begin(std::string& events) {
    event({{"type", "response.created"}, {"response", object("in_progress")}}, events);
    event({{"type", "response.in_progress"}, {"response", object("in_progress")}}, events);
  }

  /// The response in its current state.
  [[nodiscard]] Json object(std::string_view status) const {
    Json response = {{"id", id_},
                     {"object", "response"},
                     {"created_at", head_.is_null() ? Json(0) : head_["created"]},
                     {"status", status},
                     {"background", false},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"instructions", nullptr},
                     {"max_output_tokens", nullptr},
                     {"metadata", Json::object()},
                     {"model", head_.is_null() ? Json("") : head_["model"]},
                     {"output", output_},
                     {"parallel_tool_calls", true},
                     {"previous_response_id", nullptr},
                     {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                     {"store", true},
                     {"temperature", nullptr},
                     {"text", {{"format", {{"type", "text"}}}}},
                     {"tool_choice", "auto"},
                     {"tools", Json::array()},
                     {"top_p", nullptr},
                     {"truncation", "disabled"},
                     {"usage", nullptr}};
    response.update(shape_.echo);
    return response;
  }

  /// The finished response. Also adds it to the store.
  Json finished() {
    const bool is_cut = finish_reason_ == "length";
    Json response = object(is_cut ? "incomplete" : "completed");
    if (is_cut) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["usage"] = response_usage(usage_);
    if (shape_.store) {
      if (said_["reasoning"] == "") said_.erase("reasoning");
      shape_.messages.push_back(std::move(said_));
      shape_.store->put(id_, response, shape_.messages);
    }
    return response;
  }

  void open(Kind kind, Json item, std::string& events) {
    kind_ = kind;
    item_ = std::move(item);
    event(
        {{"type", "response.output_item.added"}, {"output_index", output_.size()}, {"item", item_}},
        events);
  }

  [[nodiscard]] std::string item_id(std::string_view prefix) const {
    return fmt::format("{}_{}{:02x}", prefix, key_, output_.size());
  }

  /// The members that all events of an item share.
  [[nodiscard]] Json of_item(std::string_view type, bool of_part) const {
    Json data = {{"type", type}, {"item_id", item_["id"]}, {"output_index", output_.size()}};
    if (of_part) data["content_index"] = 0;
    return data;
  }

  [[nodiscard]] Json part() const {
    return kind_ == Kind::reasoning ? Json{{"type", "reasoning_text"}, {"text", text_}}
                                    : text_part(text_, logprobs_);
  }

  void add_text(Kind kind, const std::string& text, Json logprobs, std::string& events) {
    if (kind_ != kind) {
      close(events);
      const bool is_message = kind == Kind::message;
      Json item = {{"id", item_id(is_message ? "msg" : "rs")},
                   {"type", is_message ? "message" : "reasoning"},
                   {"status", "in_progress"}};
      if (is_message) item["role"] = "assistant";
      if (!is_message) item["summary"] = Json::array();
      item["content"] = Json::array();
      open(kind, std::move(item), events);
      text_.clear();
      logprobs_ = Json::array();
      Json data = of_item("response.content_part.added", true);
      data["part"] = part();
      event(std::move(data), events);
    }
    Json data = of_item(
        kind == Kind::message ? "response.output_text.delta" : "response.reasoning_text.delta",
        true);
    data["delta"] = text;
    if (kind == Kind::message) data["logprobs"] = logprobs;
    event(std::move(data), events);
    text_ += text;
    for (Json& token : logprobs) logprobs_.push_back(std::move(token));
    auto& member = said_[kind == Kind::message ? "content" : "reasoning"].get_ref<std::string&>();
    member += text;
  }

  /// A call with a name begins here; a call without one continues.
  void add_call(const Json& call, std::string& events) {
    const Json& function = call["function"];
    const auto& arguments = function["arguments"].get_ref<const std::string&>();
    if (call.contains("id")) {
      close(events);
      called_ = function["name"].get<std::string>();
      const bool is_custom = shape_.custom_tools.contains(called_);
      Json item = {{"id", item_id(is_custom ? "ctc" : "fc")},
                   {"type", is_custom ? "custom_tool_call" : "function_call"},
                   {"status", "in_progress"},
                   {"call_id", call["id"]},
                   {"name", called_},
                   {is_custom ? "input" : "arguments", ""}};
      if (const auto found = shape_.spaces.find(called_); found != shape_.spaces.end()) {
        item["namespace"] = found->second.first;
        item["name"] = found->second.second;
      }
      open(is_custom ? Kind::custom_tool_call : Kind::function_call, std::move(item), events);
      text_.clear();
    }
    text_ += arguments;
    if (kind_ != Kind::function_call || arguments.empty()) return;
    Json data = of_item("response.function_call_arguments.delta", false);
    data["delta"] = arguments;
    event(std::move(data), events);
  }

  void close(std::string& events) {
    if (kind_ == Kind::none) return;
    switch (kind_) {
      case Kind::reasoning:
      case Kind::message:
        close_text(events);
        break;
      default:
        close_call(events);
        break;
    }
    const bool is_cut = finish_reason_ == "length";
    item_["status"] = is_cut ? "incomplete" : "completed";
    event(
        {{"type", "response.output_item.done"}, {"output_index", output_.size()}, {"item", item_}},
        events);
    output_.push_back(std::move(item_));
    kind_ = Kind::none;
  }

  void close_text(std::string& events) {
    const bool is_message = kind_ == Kind::message;
    Json done =
        of_item(is_message ? "response.output_text.done" : "response.reasoning_text.done", true);
    done["text"] = text_;
    if (is_message) done["logprobs"] = logprobs_;
    event(std::move(done), events);
    Json data = of_item("response.content_part.done", true);
    data["part"] = part();
    event(std::move(data), events);
    item_["content"].push_back(part());
  }

  void close_call(std::string& events) {
    said_["tool_calls"].push_back({{"id", item_["call_id"]},
                                   {"type", "function"},
                                   {"function", {{"name", called_}, {"arguments", text_}}}});
    if (kind_ == Kind::function_call) {
      item_["arguments"] = text_;
      Json done = of_item("response.function_call_arguments.done", false);
      done["name"] = item_["name"];
      done["arguments"] = text_;
      return event(std::move(done), events);
    }
    item_["input"] = custom_input(text_);
    for (const auto& [type, member] :
         {std::pair("response.custom_tool_call_input.delta", "delta"),
          std::pair("response.custom_tool_call_input.done", "input")}) {
      Json data = of_item(type, false);
      data[member] = item_["input"];
      event(std::move(data), events);
    }
  }

  ResponsesShape shape_;
  std::string key_;  // of all ids of this answer
  std::string id_;
  Json head_;  // "created" and "model"; null: nothing came yet
  Json usage_;
  Json finish_reason_;
  Json output_ = Json::array();                                              // finished items
  Json said_ = {{"role", "assistant"}, {"content", ""}, {"reasoning", ""}};  // as a chat's message
  Kind kind_ = Kind::none;                                                   // of the open item
  Json item_;
  std::string text_;    // of the open item
  std::string called_;  // the tool of the open call, by its name in the chat
  Json logprobs_;
  int64_t num_events_ = 0;
};

}  // namespace

std::unique_ptr<ChatTranslator> make_responses_answer(ResponsesShape shape) {
  return std::make_unique<ResponsesAnswer>(std::move(shape));
}

}  // namespace reprise::server
