#include "reprise/server/answer.h"

#include <utility>

namespace reprise::server {
namespace {

constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
constexpr const char* kRequestIdHeader = "X-Request-Id";

}  // namespace

Answer::Answer(const GenerationRequest& request,
               AnswerHead head,
               std::string request_id,
               int num_choices,
               Usage usage,
               ExchangeRef exchange)
    : head_(std::move(head)),
      request_id_(std::move(request_id)),
      exchange_(std::move(exchange)),
      is_stream_(request.stream),
      include_usage_(request.include_usage),
      continuous_usage_(request.continuous_usage),
      n_(request.n),
      choices_(static_cast<size_t>(num_choices)),
      usage_(usage) {}

void Answer::take(const EngineEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(event.choice)];
  count(event, choice);
  if (event.finished) {
    choice.finish_reason = event.finish_reason;
    choice.stop_reason = event.stop_reason;
  }
  if (is_stream_) {
    stream(event);
  } else {
    choice.text += event.text;
  }
}

void Answer::count(const EngineEvent& event, Choice& choice) {
  // What the engine counted at the end is what it sampled.
  const int64_t num_new =
      event.finished ? event.num_output_tokens - choice.num_output_tokens : event.num_tokens;
  choice.num_output_tokens += num_new;
  usage_.completion_tokens += num_new;
  // A prompt is counted once, so what was cached of it is, too: for the first of its answers.
  if (!usage_.cached_tokens || event.choice % n_ != 0) return;
  *usage_.cached_tokens += event.num_cached_tokens - choice.num_cached_tokens;
  choice.num_cached_tokens = event.num_cached_tokens;
}

void Answer::begin_stream() {
  exchange_->begin_stream(
      {.content_type = std::string(kEventStream),
       .headers = {{kRequestIdHeader, request_id_}, {"Cache-Control", "no-cache"}}});
  if (!head_.is_chat) return;
  for (size_t i = 0; i < choices_.size(); ++i) write_chunk(role_chunk(head_, static_cast<int>(i)));
}

void Answer::stream(const EngineEvent& event) {
  if (!std::exchange(has_begun_, true)) begin_stream();
  if (event.num_tokens == 0 && event.text.empty() && !event.finished) return;
  write_chunk(
      text_chunk(head_,
                 {.index = event.choice,
                  .text = event.text,
                  .finish_reason = event.finished ? event.finish_reason : std::string_view(),
                  .stop_reason = event.finished ? &event.stop_reason : nullptr}));
}

void Answer::write_chunk(Json chunk) {
  if (continuous_usage_) chunk["usage"] = to_json(usage_);
  exchange_->write(sse_event(chunk));
}

void Answer::finish() {
  if (is_stream_) {
    if (include_usage_) exchange_->write(sse_event(usage_chunk(head_, usage_)));
    exchange_->write(kSseDone);
    return exchange_->finish_stream();
  }
  std::vector<ChoiceText> choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    choices.push_back({.index = static_cast<int>(i),
                       .text = choice.text,
                       .finish_reason = choice.finish_reason,
                       .stop_reason = &choice.stop_reason});
  }
  exchange_->respond({.body = dump(answer_json(head_, choices, usage_)),
                      .headers = {{kRequestIdHeader, request_id_}}});
}

void Answer::fail(const ApiError& error) {
  if (has_begun_) {
    exchange_->write(sse_event(error_body(error)));
    exchange_->write(kSseDone);
    return exchange_->finish_stream();
  }
  HttpResponse response = error_response(error);
  response.headers.emplace_back(kRequestIdHeader, request_id_);
  exchange_->respond(std::move(response));
}

}  // namespace reprise::server
