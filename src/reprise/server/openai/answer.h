#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/http/api_error.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/answer_message.h"
#include "reprise/server/openai/generation_request.h"
#include "reprise/server/openai/logprobs_json.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/request_answer.h"
#include "reprise/server/openai/responses.h"

namespace reprise::server {

/// The answer to one generation request, as a stream or as one object. The class has no access to
/// the engine or to other requests.
class Answer final : public RequestAnswer {
 public:
  /// `tokenizer` must outlive this.
  Answer(const GenerationRequest& request,
         const std::vector<EncodedPrompt>& prompts,
         AnswerHead head,
         std::string request_id,
         Usage usage,
         const tokenizer::Tokenizer& tokenizer,
         ExchangeRef exchange);

  void take(int index, const engine::OutputDelta& delta) override;
  void keep_alive(api::TimePoint since) override;
  void finish() override;
  [[nodiscard]] bool is_large() const override;
  [[nodiscard]] HttpResponse whole() override;
  void respond(HttpResponse response) override { exchange_->respond(std::move(response)); }
  void fail(const ApiError& error) override;

 private:
  /// The parts of an answer that the request asks to be shown.
  struct Parameters {
    bool logprobs = false;
    bool prompt_logprobs = false;
    bool token_ids = false;
    bool echo = false;       // repeats the prompt; in a chat, the message that the answer continues
    bool echo_only = false;  // shows no generated text
    bool usage = false;
    bool continuous_usage = false;
    bool prompt_text = false;  // in a chat
    bool timed_usage = false;
    int stream_interval = 1;  // tokens of a chunk
  };
  struct Choice {
    ChoicePart pending;  // what is sent next; without streaming, this is the whole choice
    std::unique_ptr<output_parsers::OutputParser> parser;  // null: the text is the content
    AnswerMessage message;
    bool has_begun = false;
    int64_t num_sent_tokens = 0;  // tokens counted when the last chunk was sent
    bool has_sent = false;
    TextOffset text_offset;  // of the next token
    int64_t num_output_tokens = 0;
    int64_t num_cached_tokens = 0;
    bool is_reasoning = false;  // the last text was reasoning
    std::string finish_reason;
    scheduler::StopReason stop_reason;
  };

  /// Returns the number of new tokens.
  int64_t count(int index, const engine::OutputDelta& delta);
  void collect(int index, const engine::OutputDelta& delta, int64_t num_tokens);
  void read(const engine::OutputDelta& delta, Choice& choice, int64_t num_tokens);
  void begin_stream();
  /// `num_tokens`: how many tokens of the choice the client knows with this chunk.
  void write_chunk(Json chunk, int index, int64_t num_tokens);
  /// The usage in a chunk with `continuous_usage_stats`. It counts only the chunk's choice, as
  /// vLLM's does.
  [[nodiscard]] Usage usage_of(int index, int64_t num_tokens) const;
  [[nodiscard]] bool waits_for_more(const Choice& choice) const;
  [[nodiscard]] ChoicePart take_part(int index);
  [[nodiscard]] Json show_logprobs(const ChoicePart& part, TextOffset& text_offset) const;
  [[nodiscard]] const EncodedPrompt& prompt_of(int index) const;

  AnswerHead head_;
  std::string request_id_;
  ExchangeRef exchange_;
  Parameters parameters_;
  TokenSpelling spelling_;
  TokenSpelling prompt_spelling_;  // for prompt_logprobs, whose keys are ids already
  std::vector<EncodedPrompt> prompts_;
  int n_;                                  // choices of each prompt
  std::function<Json()> describe_export_;  // KvTransferFields::describe_export
  std::string echo_text_;                  // in a chat
  bool is_stream_;
  bool include_reasoning_;
  bool is_named_call_;
  bool is_single_call_;     // parallel_tool_calls is false
  bool has_begun_ = false;  // the head of the stream was sent
  api::TimePoint last_written_ = std::chrono::steady_clock::now();  // of a stream
  std::vector<Choice> choices_;
  Usage usage_;
};

}  // namespace reprise::server
