#include "reprise/server/dialects/translated_chat.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/server/http/forwarding_exchange.h"
#include "reprise/server/openai/responses.h"

namespace reprise::server {
namespace {

/// Turns the answer of a chat into another API's form for the client. Answer writes each event with
/// one call.
class TranslatedExchange : public ForwardingExchange {
 public:
  TranslatedExchange(std::shared_ptr<ChatTranslator> translator, ExchangeRef exchange)
      : ForwardingExchange(std::move(exchange)), translator_(std::move(translator)) {}

  void respond(HttpResponse response) override {
    if (response.status < 400) {
      response.body = dump(translator_->whole(Json::parse(response.body)));
    }
    ForwardingExchange::respond(std::move(response));
  }
  void begin_stream(const HttpResponse& head) override {
    HttpResponse translated = head;
    translated.content_type = fmt::format("{}; charset=utf-8", translator_->stream_type());
    ForwardingExchange::begin_stream(translated);
  }
  void write(std::string_view event) override {
    if (event == kSseKeepAlive) {
      // Lines of JSON have no comments.
      if (translator_->stream_type() == kEvents) ForwardingExchange::write(event);
      return;
    }
    const std::string text = translate(event);
    if (!text.empty()) ForwardingExchange::write(text);
  }

 private:
  static constexpr std::string_view kEvents = "text/event-stream";

  std::string translate(std::string_view event) {
    constexpr std::string_view kData = "data: ";
    if (event == kSseDone) return has_failed_ ? "" : translator_->end();
    const Json json = Json::parse(event.substr(kData.size()));
    const auto error = json.find("error");
    if (error == json.end()) return translator_->chunk(json);
    has_failed_ = true;
    return translator_->error(*error);
  }

  std::shared_ptr<ChatTranslator> translator_;
  bool has_failed_ = false;
};

Answering prepare_chat(const TextGeneration& generation,
                       TranslatedChat& chat,
                       const HttpRequest& from,
                       api::TimePoint arrived) {
  GenerationRequest request = chat.is_text
                                  ? parse_completion_request(dump(chat.body), generation.policy())
                                  : read_chat_request(chat.body, generation.policy());
  // Without a limit, OpenAI's API would end a text after 16 tokens; the others end it with the
  // model.
  if (chat.is_text && !chat.body.contains("max_tokens")) request.params.max_tokens.reset();
  request.unused_fields = std::move(chat.unused_fields);
  request.cached_usage = true;  // those APIs have no other value for "not counted"
  request.timed_usage = true;
  return generation.prepare(std::move(request), from, arrived);
}

}  // namespace

Answering prepare_translated(const TextGeneration& generation,
                             TranslatedChat chat,
                             const HttpRequest& from,
                             api::TimePoint arrived) {
  if (chat.body.value("stream", false)) {
    chat.body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  }
  Answering answering = [&] {
    try {
      return prepare_chat(generation, chat, from, arrived);
    } catch (const ApiError& error) {
      throw in_words_of_client(error, chat.names);
    }
  }();
  answering.answer = [start = std::move(answering.answer),
                      translator = std::shared_ptr<ChatTranslator>(std::move(chat.answer))](
                         const ExchangeRef& exchange) {
    start(std::make_shared<TranslatedExchange>(translator, exchange));
  };
  return answering;
}

std::string named_event(const Json& data) {
  return fmt::format(
      "event: {}\ndata: {}\n\n", data["type"].get_ref<const std::string&>(), dump(data));
}

}  // namespace reprise::server
