#include "reprise/server/dialects/anthropic_answer.h"

#include <string>
#include <string_view>
#include <utility>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

std::string_view kind_of_error(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

Json error_json(const Json& error) {
  return {{"type", "error"},
          {"error",
           {{"type", kind_of_error(error.value("code", 500))}, {"message", error["message"]}}}};
}

/// Why a message ended. `finish`: finish_reason of the choice, `stop`: its stop_reason.
std::string_view stop_reason(const Json& finish, const Json& stop, bool has_calls) {
  if (finish == "length") return "max_tokens";
  if (has_calls) return "tool_use";
  return stop.is_string() ? "stop_sequence" : "end_turn";
}

Json stop_sequence(const Json& stop) { return stop.is_string() ? stop : Json(nullptr); }

/// The cached tokens are counted apart from the other input, unlike in OpenAI's API.
Json message_usage(const Json& usage) {
  const Json& details = usage["prompt_tokens_details"];
  const int64_t cached = details.is_object() ? details.value("cached_tokens", int64_t{0}) : 0;
  return {{"input_tokens", usage["prompt_tokens"].get<int64_t>() - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", usage["completion_tokens"]}};
}

Json message_json(const Json& completion) {
  constexpr std::string_view kChatPrefix = "chatcmpl-";
  std::string id = completion["id"].get<std::string>();
  if (id.starts_with(kChatPrefix)) id.erase(0, kChatPrefix.size());
  return {{"id", "msg_" + id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", completion["model"]},
          {"content", Json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", message_usage(completion["usage"])}};
}

/// The arguments of a call as an object. Arguments that were cut off, or that no schema forced to
/// be an object, stay a text: a tool must not run with made-up arguments.
Json tool_input(const std::string& arguments) {
  Json input = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  return input.is_object() ? input : Json{{"partial_json", arguments}};
}

class AnthropicAnswer final : public ChatTranslator {
 public:
  Json whole(const Json& completion) override {
    const Json& choice = completion["choices"][0];
    const Json& said = choice["message"];
    Json message = message_json(completion);
    Json& content = message["content"];
    if (const std::string thinking = said.value("reasoning", ""); !thinking.empty()) {
      content.push_back({{"type", "thinking"}, {"thinking", thinking}, {"signature", ""}});
    }
    if (said["content"].is_string() && said["content"] != "") {
      content.push_back({{"type", "text"}, {"text", said["content"]}});
    }
    const Json calls = said.value("tool_calls", Json::array());
    for (const Json& call : calls) {
      const Json& function = call["function"];
      content.push_back(
          {{"type", "tool_use"},
           {"id", call["id"]},
           {"name", function["name"]},
           {"input", tool_input(function["arguments"].get_ref<const std::string&>())}});
    }
    message["stop_reason"] =
        stop_reason(choice["finish_reason"], choice["stop_reason"], !calls.empty());
    message["stop_sequence"] = stop_sequence(choice["stop_reason"]);
    return message;
  }

  std::string chunk(const Json& chunk) override {
    usage_ = chunk["usage"];
    std::string events;
    if (!std::exchange(has_begun_, true)) {
      events += named_event({{"type", "message_start"}, {"message", message_json(chunk)}});
    }
    if (chunk["choices"].empty()) return events;
    const Json& choice = chunk["choices"][0];
    const Json& delta = choice["delta"];
    if (const std::string text = delta.value("reasoning", ""); !text.empty()) {
      open({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, events);
      add({{"type", "thinking_delta"}, {"thinking", text}}, events);
    }
    if (delta.contains("content") && delta["content"].is_string() && delta["content"] != "") {
      open({{"type", "text"}, {"text", ""}}, events);
      add({{"type", "text_delta"}, {"text", delta["content"]}}, events);
    }
    for (const Json& call : delta.value("tool_calls", Json::array())) add_call(call, events);
    if (!choice["finish_reason"].is_null()) {
      finish_reason_ = choice["finish_reason"];
      stop_reason_ = choice["stop_reason"];
    }
    return events;
  }

  std::string end() override {
    std::string events;
    close(events);
    events += named_event({{"type", "message_delta"},
                           {"delta",
                            {{"stop_reason", stop_reason(finish_reason_, stop_reason_, has_calls_)},
                             {"stop_sequence", stop_sequence(stop_reason_)}}},
                           {"usage", message_usage(usage_)}});
    return events + named_event({{"type", "message_stop"}});
  }

  std::string error(const Json& error) override { return named_event(error_json(error)); }

 private:
  /// Begins a block unless one of the same type is open.
  void open(const Json& block, std::string& events) {
    if (open_type_ == block["type"]) return;
    close(events);
    open_type_ = block["type"];
    events += named_event(
        {{"type", "content_block_start"}, {"index", num_blocks_}, {"content_block", block}});
  }
  void close(std::string& events) {
    if (open_type_.is_null()) return;
    open_type_ = nullptr;
    events += named_event({{"type", "content_block_stop"}, {"index", num_blocks_++}});
  }
  void add(const Json& delta, std::string& events) const {
    events +=
        named_event({{"type", "content_block_delta"}, {"index", num_blocks_}, {"delta", delta}});
  }
  /// A call with an id begins here; a call without one continues.
  void add_call(const Json& call, std::string& events) {
    const Json& function = call["function"];
    if (call.contains("id")) {
      has_calls_ = true;
      close(events);
      open({{"type", "tool_use"},
            {"id", call["id"]},
            {"name", function["name"]},
            {"input", Json::object()}},
           events);
    }
    if (function["arguments"] == "") return;
    add({{"type", "input_json_delta"}, {"partial_json", function["arguments"]}}, events);
  }

  Json usage_;
  Json finish_reason_;
  Json stop_reason_;
  Json open_type_;  // the type of the open block; null: no block is open
  int num_blocks_ = 0;
  bool has_begun_ = false;
  bool has_calls_ = false;
};

}  // namespace

std::unique_ptr<ChatTranslator> make_anthropic_answer() {
  return std::make_unique<AnthropicAnswer>();
}

HttpResponse anthropic_error(HttpResponse response) {
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_object() && body.contains("error")) response.body = dump(error_json(body["error"]));
  return response;
}

}  // namespace reprise::server
