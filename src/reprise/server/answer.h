#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/server/api_error.h"
#include "reprise/server/event_queue.h"
#include "reprise/server/generation_request.h"
#include "reprise/server/responses.h"
#include "reprise/server/router.h"

namespace reprise::server {

/// The answer to one generation request: takes what the engine produces for its choices and writes
/// it to the client, as a stream or as one object. It knows nothing of the engine or of other
/// requests. Ends with one finish() or fail(). I/O thread only.
class Answer {
 public:
  Answer(const GenerationRequest& request,
         AnswerHead head,
         std::string request_id,
         int num_choices,
         Usage usage,
         ExchangeRef exchange);

  /// What one step added to one choice; once it is finished, nothing more comes for that choice.
  void take(const EngineEvent& event);
  /// All choices are finished.
  void finish();
  /// The status is sent when nothing was sent before, else the error ends the stream.
  void fail(const ApiError& error);

 private:
  struct Choice {
    std::string text;  // of an answer that is no stream
    int64_t num_output_tokens = 0;
    int64_t num_cached_tokens = 0;
    std::string finish_reason;
    engine::StopReason stop_reason;
  };

  void count(const EngineEvent& event, Choice& choice);
  void stream(const EngineEvent& event);
  void begin_stream();
  void write_chunk(Json chunk);

  AnswerHead head_;
  std::string request_id_;
  ExchangeRef exchange_;
  bool is_stream_;
  bool include_usage_;
  bool continuous_usage_;
  int n_;  // answers per prompt
  bool has_begun_ = false;  // the head of the stream was sent
  std::vector<Choice> choices_;
  Usage usage_;
};

}  // namespace reprise::server
