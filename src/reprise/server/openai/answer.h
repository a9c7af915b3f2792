#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/server/http/api_error.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/answer_message.h"
#include "reprise/server/openai/generation_request.h"
#include "reprise/server/openai/logprobs_json.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/responses.h"

namespace reprise::server {

/// The answer to one generation request: takes what the engine produces for its choices and writes
/// it to the client, as a stream or as one object. It knows nothing of the engine or of other
/// requests. Ends with one finish() or fail(). I/O thread only.
class Answer {
 public:
  /// `tokenizer` must outlive this.
  Answer(const GenerationRequest& request,
         const std::vector<EncodedPrompt>& prompts,
         AnswerHead head,
         std::string request_id,
         Usage usage,
         const tokenizer::Tokenizer& tokenizer,
         ExchangeRef exchange);

  /// What one step added to the choice `index`; a finished delta is the last one of its choice.
  void take(int index, const engine::OutputDelta& delta);
  /// All choices are finished.
  void finish();
  /// The status is sent when nothing was sent before, else the error ends the stream.
  void fail(const ApiError& error);

 private:
  /// What the fields of a request ask to be shown.
  struct Wish {
    bool logprobs = false;
    bool prompt_logprobs = false;
    bool token_ids = false;
    bool echo = false;       // the prompt, or in a chat the message that is continued
    bool echo_only = false;  // and nothing of what was generated
    bool usage = false;
    bool continuous_usage = false;
  };
  /// What a client is told next of a choice; of an answer that is no stream: all of it.
  struct Pending {
    std::string text;
    Json more = Json::object();             // beside it: reasoning, calls of tools; streams only
    std::vector<int32_t> prompt_token_ids;  // that are echoed or returned
    std::vector<int32_t> token_ids;
    std::vector<sampling::PositionLogprobs> prompt_logprobs;
    std::vector<sampling::PositionLogprobs> logprobs;
  };
  struct Choice {
    Pending pending;
    std::unique_ptr<output_parsers::OutputParser> parser;  // null: the text is the content
    AnswerMessage message;
    bool has_begun = false;
    int64_t text_offset = 0;  // in characters: where the next token begins in "text_offset"
    int64_t num_output_tokens = 0;
    int64_t num_cached_tokens = 0;
    std::string finish_reason;
    engine::StopReason stop_reason;
  };

  void count(int index, const engine::OutputDelta& delta);
  void collect(int index, const engine::OutputDelta& delta);
  void read(const engine::OutputDelta& delta, Choice& choice);
  void begin_stream();
  void write_chunk(Json chunk);
  [[nodiscard]] ChoicePart take_part(int index);
  [[nodiscard]] Json take_logprobs(Choice& choice) const;
  [[nodiscard]] const EncodedPrompt& prompt_of(int index) const;

  AnswerHead head_;
  std::string request_id_;
  ExchangeRef exchange_;
  Wish wish_;
  TokenSpelling spelling_;
  TokenSpelling prompt_spelling_;  // of prompt_logprobs, which have ids as keys already
  std::vector<EncodedPrompt> prompts_;
  int n_;                  // choices of each prompt
  std::string echo_text_;  // of a chat
  bool is_stream_;
  bool include_reasoning_;
  bool is_named_call_;
  bool has_begun_ = false;  // the head of the stream was sent
  std::vector<Choice> choices_;
  Usage usage_;
};

}  // namespace reprise::server
