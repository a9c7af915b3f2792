#include "reprise/server/openai/answer.h"

#include <chrono>
#include <utility>

namespace reprise::server {
namespace {

// The number of tokens and log-probabilities whose JSON the I/O thread writes in about a
// millisecond.
constexpr size_t kMaxInlineParts = 500;
constexpr size_t kBytesPerPart = 64;  // of text

constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

/// The text that an echoed chat answer begins with: the last message, if its role is the answer's
/// role.
std::string text_to_echo(const GenerationRequest& request) {
  if (!request.is_chat || !request.echo || request.messages.empty()) return {};
  const Json& last = request.messages.back();
  if (last.at("role") != request.role()) return {};
  const Json& content = last.at("content");
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (part["type"] != "text") continue;
    if (!text.empty()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

/// Adds the members of a delta to those of earlier deltas that go into the same chunk.
void append_members(Json&& from, Json& to) {
  for (auto& [name, value] : from.items()) {
    Json& member = to[name];
    if (member.is_string()) {
      member.get_ref<std::string&>() += value.get_ref<const std::string&>();
    } else if (member.is_array()) {
      for (Json& item : value) member.push_back(std::move(item));
    } else {
      member = std::move(value);
    }
  }
}

}  // namespace

Answer::Answer(const GenerationRequest& request,
               const std::vector<EncodedPrompt>& prompts,
               AnswerHead head,
               std::string request_id,
               Usage usage,
               const tokenizer::Tokenizer& tokenizer,
               ExchangeRef exchange)
    : head_(std::move(head)),
      request_id_(std::move(request_id)),
      exchange_(std::move(exchange)),
      parameters_{.logprobs = request.params.logprobs.has_value(),
                  .prompt_logprobs = request.return_prompt_logprobs,
                  .token_ids = request.return_token_ids,
                  .echo = request.echo,
                  .echo_only = request.echo_only,
                  .usage = request.include_usage,
                  .continuous_usage = request.continuous_usage,
                  .prompt_text = request.is_chat && request.return_prompt_text,
                  .timed_usage = request.timed_usage,
                  .stream_interval = request.stream_interval},
      spelling_(
          tokenizer,
          request.return_tokens_as_token_ids ? TokenSpelling::Form::id : TokenSpelling::Form::text),
      prompt_spelling_(tokenizer, TokenSpelling::Form::text),
      prompts_(prompts),
      n_(request.n),
      describe_export_(request.kv_transfer.describe_export),
      echo_text_(text_to_echo(request)),
      is_stream_(request.stream),
      include_reasoning_(request.include_reasoning),
      is_named_call_(request.tools.choice == ToolUse::Choice::named),
      is_single_call_(!request.tools.parallel),
      choices_(static_cast<size_t>(request.num_choices())),
      usage_(usage) {
  if (request.may_reason) usage_.reasoning_tokens = 0;
  if (!request.create_parser) return;
  for (Choice& choice : choices_) choice.parser = request.create_parser();
}

const EncodedPrompt& Answer::prompt_of(int index) const {
  return prompts_[static_cast<size_t>(index / n_)];
}

void Answer::take(int index, const engine::OutputDelta& delta) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const int64_t num_tokens = count(index, delta);
  if (delta.finished) {
    choice.finish_reason = delta.finish_reason;
    choice.stop_reason = delta.stop_reason;
  }
  if (is_stream_ && !std::exchange(has_begun_, true)) begin_stream();
  collect(index, delta, num_tokens);
  if (!is_stream_) return;
  const ChoicePart& pending = choice.pending;
  const bool is_held_back = delta.token_ids.empty() || choice.parser != nullptr;
  if (is_held_back && pending.text.empty() && pending.more.empty() && !delta.finished) return;
  if (!delta.finished && waits_for_more(choice)) return;
  choice.has_sent = true;
  choice.num_sent_tokens = choice.num_output_tokens;
  write_chunk(text_chunk(head_, take_part(index)), index, choice.num_output_tokens);
}

bool Answer::waits_for_more(const Choice& choice) const {
  return choice.has_sent &&
         choice.num_output_tokens - choice.num_sent_tokens < parameters_.stream_interval;
}

void Answer::collect(int index, const engine::OutputDelta& delta, int64_t num_tokens) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  ChoicePart& pending = choice.pending;
  if (!std::exchange(choice.has_begun, true)) {
    const EncodedPrompt& prompt = prompt_of(index);
    if (parameters_.echo && !head_.is_chat) pending.text = prompt.text;
    if (parameters_.token_ids || (parameters_.echo && parameters_.logprobs)) {
      pending.prompt_token_ids = prompt.token_ids;
    }
  }
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  if (parameters_.prompt_logprobs || (parameters_.echo && parameters_.logprobs)) {
    append(pending.prompt_logprobs, delta.prompt_logprobs);
  }
  if (parameters_.echo_only) return;
  read(delta, choice, num_tokens);
  if (parameters_.token_ids || parameters_.logprobs) append(pending.token_ids, delta.token_ids);
  if (parameters_.logprobs) append(pending.logprobs, delta.logprobs);
}

void Answer::read(const engine::OutputDelta& delta, Choice& choice, int64_t num_tokens) {
  if (!choice.parser) {
    choice.pending.text += delta.text;
    return;
  }
  output_parsers::MessageDelta message;
  choice.parser->push(delta.text, message);
  if (delta.finished) {
    using output_parsers::AnswerEnd;
    const bool is_cut = choice.finish_reason == "length" || choice.finish_reason == "abort";
    choice.parser->finish(is_cut ? AnswerEnd::cut : AnswerEnd::by_model, message);
  }
  if (!message.reasoning.empty()) choice.is_reasoning = true;
  if (!message.content.empty() || !message.tool_calls.empty()) choice.is_reasoning = false;
  // A token whose text the parser holds back counts like the text before it.
  if (usage_.reasoning_tokens && choice.is_reasoning) *usage_.reasoning_tokens += num_tokens;
  if (!include_reasoning_) message.reasoning.clear();
  if (is_single_call_) {
    std::erase_if(message.tool_calls, [](const auto& call) { return call.index > 0; });
  }
  choice.pending.text += message.content;
  Json members = choice.message.take(message);
  if (is_stream_) append_members(std::move(members), choice.pending.more);
  // A call of a tool that the request named counts as a normal answer, the same as in OpenAI's API.
  const bool is_calls = choice.message.has_calls() && !is_named_call_;
  if (delta.finished && is_calls && choice.finish_reason == "stop")
    choice.finish_reason = "tool_calls";
}

int64_t Answer::count(int index, const engine::OutputDelta& delta) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  // The last delta carries the engine's total number of sampled tokens.
  const int64_t num_new = delta.finished ? delta.num_output_tokens - choice.num_output_tokens
                                         : static_cast<int64_t>(delta.token_ids.size());
  choice.num_output_tokens += num_new;
  // With `echo_only` one token is computed but not shown, so the usage does not count it.
  if (!parameters_.echo_only) usage_.completion_tokens += num_new;
  // The usage counts a prompt once, so its cached tokens also count once: with the first of its
  // answers.
  if (usage_.cached_tokens && index % n_ == 0) {
    *usage_.cached_tokens += delta.num_cached_tokens - choice.num_cached_tokens;
    choice.num_cached_tokens = delta.num_cached_tokens;
  }
  if (parameters_.timed_usage && delta.finished && delta.times) {
    usage_.decode_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                           delta.times->last_token - delta.times->first_token)
                           .count();
  }
  return num_new;
}

void Answer::begin_stream() {
  exchange_->begin_stream(
      {.content_type = std::string(kEventStream),
       .headers = {{kRequestIdHeader, request_id_}, {"Cache-Control", "no-cache"}}});
  if (!head_.is_chat) return;
  for (int i = 0; std::cmp_less(i, choices_.size()); ++i) {
    Json chunk = role_chunk(head_, i);
    if (parameters_.token_ids) chunk["prompt_token_ids"] = prompt_of(i).token_ids;
    if (parameters_.prompt_text) chunk["prompt_text"] = prompt_of(i).text;
    write_chunk(std::move(chunk), i, 0);
    if (!echo_text_.empty()) {
      write_chunk(text_chunk(head_, {.index = i, .text = echo_text_}), i, 0);
    }
  }
}

/// The part of a choice that the client has not received yet. The call clears what was pending.
ChoicePart Answer::take_part(int index) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  ChoicePart part = std::exchange(choice.pending, {});
  part.index = index;
  part.finish_reason = choice.finish_reason;
  part.stop_reason = &choice.stop_reason;
  if (parameters_.logprobs) part.shown_logprobs = show_logprobs(part, choice.text_offset);
  if (parameters_.prompt_logprobs && !is_stream_) {
    part.shown_prompt_logprobs = prompt_logprobs_json(part.prompt_logprobs, prompt_spelling_);
  }
  const bool is_told_elsewhere = head_.is_chat && is_stream_;
  part.shows_token_ids = parameters_.token_ids;
  part.shows_prompt_token_ids =
      parameters_.token_ids && !part.prompt_token_ids.empty() && !is_told_elsewhere;
  return part;
}

Json Answer::show_logprobs(const ChoicePart& part, TextOffset& text_offset) const {
  std::vector<ShownToken> tokens;
  if (parameters_.echo && !head_.is_chat) {
    for (size_t i = 0; i < part.prompt_token_ids.size(); ++i) {
      const bool is_known = i > 0 && i <= part.prompt_logprobs.size();
      tokens.push_back({.token_id = part.prompt_token_ids[i],
                        .logprobs = is_known ? &part.prompt_logprobs[i - 1] : nullptr});
    }
  }
  for (size_t i = 0; i < part.logprobs.size(); ++i) {
    tokens.push_back({.token_id = part.token_ids[i], .logprobs = &part.logprobs[i]});
  }
  return head_.is_chat ? chat_logprobs_json(tokens, spelling_)
                       : completion_logprobs_json(tokens, spelling_, text_offset);
}

void Answer::write_chunk(Json chunk, int index, int64_t num_tokens) {
  if (parameters_.continuous_usage) chunk["usage"] = to_json(usage_of(index, num_tokens));
  last_written_ = std::chrono::steady_clock::now();
  exchange_->write(sse_event(chunk));
}

void Answer::keep_alive(api::TimePoint since) {
  if (!is_stream_ || last_written_ > since) return;
  if (!std::exchange(has_begun_, true)) begin_stream();
  last_written_ = std::chrono::steady_clock::now();
  exchange_->write(kSseKeepAlive);
}

Usage Answer::usage_of(int index, int64_t num_tokens) const {
  Usage usage = usage_;
  usage.completion_tokens = parameters_.echo_only ? 0 : num_tokens;
  if (choices_.size() == 1) return usage;
  usage.prompt_tokens = static_cast<int64_t>(prompt_of(index).token_ids.size());
  // These are counted for all choices together.
  usage.cached_tokens.reset();
  usage.reasoning_tokens.reset();
  return usage;
}

void Answer::finish() {
  if (is_stream_) {
    if (parameters_.usage) exchange_->write(sse_event(usage_chunk(head_, usage_)));
    exchange_->write(kSseDone);
    return exchange_->finish_stream();
  }
  respond(whole());
}

bool Answer::is_large() const {
  if (is_stream_) return false;
  size_t num_parts = 0;
  const auto add = [&num_parts](const std::vector<sampling::PositionLogprobs>& positions) {
    for (const sampling::PositionLogprobs& position : positions) {
      num_parts += position.top.size() + 1;
    }
  };
  for (const Choice& choice : choices_) {
    const ChoicePart& pending = choice.pending;
    add(pending.prompt_logprobs);
    add(pending.logprobs);
    num_parts += pending.token_ids.size() + pending.prompt_token_ids.size();
    num_parts += pending.text.size() / kBytesPerPart;
  }
  return num_parts > kMaxInlineParts;
}

HttpResponse Answer::whole() {
  std::vector<ChoicePart> choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices.push_back(take_part(static_cast<int>(i)));
    choices.back().text.insert(0, echo_text_);
    choices.back().more = choices_[i].message.whole();
  }
  Json answer = answer_json(head_, choices, usage_);
  if (parameters_.prompt_text) answer["prompt_text"] = prompt_of(0).text;
  if (describe_export_) answer["kv_transfer_params"] = describe_export_();
  return {.body = dump(answer), .headers = {{kRequestIdHeader, request_id_}}};
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
