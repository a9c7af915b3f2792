#include "reprise/server/dialects/ollama_answer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

using Clock = std::chrono::steady_clock;

int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

/// A call with its arguments as an object. Arguments that were cut off stay text.
Json call_json(const std::string& name, const std::string& arguments) {
  Json parsed = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) parsed = {{"partial_json", arguments}};
  return {{"function", {{"name", name}, {"arguments", std::move(parsed)}}}};
}

class OllamaAnswer final : public ChatTranslator {
 public:
  explicit OllamaAnswer(OllamaForm form) : form_(form) {}

  [[nodiscard]] std::string_view stream_type() const override { return "application/x-ndjson"; }

  Json whole(const Json& completion) override {
    const Json& choice = completion["choices"][0];
    const Json said = choice.value("message", Json{{"content", choice.value("text", Json())}});
    created_ = completion["created"];
    model_ = completion["model"];
    usage_ = completion["usage"];
    finish_reason_ = choice["finish_reason"];
    Json calls = Json::array();
    for (const Json& call : said.value("tool_calls", Json::array())) {
      calls.push_back(call_json(call["function"]["name"].get<std::string>(),
                                call["function"]["arguments"].get<std::string>()));
    }
    const std::string text = said["content"].is_string() ? said["content"].get<std::string>() : "";
    Json answer = part(text, said.value("reasoning", ""), std::move(calls));
    answer.update(last_members());
    return answer;
  }

  std::string chunk(const Json& chunk) override {
    usage_ = chunk["usage"];
    created_ = chunk["created"];
    model_ = chunk["model"];
    if (chunk["choices"].empty()) return {};
    const Json& choice = chunk["choices"][0];
    const Json delta = choice.value("delta", Json{{"content", choice.value("text", Json())}});
    if (!choice["finish_reason"].is_null()) finish_reason_ = choice["finish_reason"];
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      const Json& function = call["function"];
      if (call.contains("id")) calls_.emplace_back(function["name"].get<std::string>(), "");
      calls_.back().second += function["arguments"].get_ref<const std::string&>();
    }
    const std::string text =
        delta.contains("content") && delta["content"].is_string() ? delta["content"] : "";
    const std::string thinking = delta.value("reasoning", "");
    if (text.empty() && thinking.empty()) return {};
    return line(part(text, thinking, Json::array()));
  }

  std::string end() override {
    std::string lines;
    if (!calls_.empty()) {
      Json calls = Json::array();
      for (const auto& [name, arguments] : calls_) calls.push_back(call_json(name, arguments));
      lines += line(part("", "", std::move(calls)));
    }
    Json last = part("", "", Json::array());
    last.update(last_members());
    return lines + line(last);
  }

  std::string error(const Json& error) override { return line({{"error", error["message"]}}); }

 private:
  static std::string line(const Json& json) { return dump(json) + "\n"; }

  [[nodiscard]] Json part(const std::string& text, const std::string& thinking, Json calls) const {
    Json json = {{"model", model_}, {"created_at", rfc3339(created_)}};
    Json message = {{"role", "assistant"}, {"content", text}};
    if (!thinking.empty()) message["thinking"] = thinking;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    if (form_ == OllamaForm::chat) {
      json["message"] = std::move(message);
    } else {
      json["response"] = text;
      if (!thinking.empty()) json["thinking"] = thinking;
    }
    json["done"] = false;
    return json;
  }

  /// Clients divide by the durations. Where no time after the first token is known, the whole time
  /// stands for the answer.
  [[nodiscard]] Json last_members() const {
    const Clock::time_point now = Clock::now();
    const int64_t total = std::max<int64_t>(nanoseconds(now - began_), 1);
    const int64_t known = usage_.value("decode_ns", int64_t{0});
    const int64_t decode = known > 0 ? std::min(known, total) : total;
    return {{"done", true},
            {"done_reason", finish_reason_ == "length" ? "length" : "stop"},
            {"total_duration", total},
            {"load_duration", 0},
            {"prompt_eval_count", usage_["prompt_tokens"]},
            {"prompt_eval_duration", std::max<int64_t>(total - decode, 1)},
            {"eval_count", usage_["completion_tokens"]},
            {"eval_duration", decode}};
  }

  OllamaForm form_;
  Clock::time_point began_ = Clock::now();
  int64_t created_ = 0;
  Json model_ = "";
  Json usage_;
  Json finish_reason_;
  std::vector<std::pair<std::string, std::string>> calls_;  // names and arguments
};

}  // namespace

std::unique_ptr<ChatTranslator> make_ollama_answer(OllamaForm form) {
  return std::make_unique<OllamaAnswer>(form);
}

HttpResponse ollama_error(HttpResponse response) {
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_object() && body.contains("error")) {
    response.body = dump({{"error", body["error"]["message"]}});
  }
  return response;
}

std::string rfc3339(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

}  // namespace reprise::server
