#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "reprise/scheduler/stop_string_matcher.h"
#include "reprise/tokenizer/incremental_detokenizer.h"

namespace reprise::engine {

/// One finished or growing answer; vLLM's CompletionOutput.
struct CompletionOutput {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<sampling::PositionLogprobs> logprobs;  // of each token; empty unless asked for
  std::string finish_reason;  // "stop", "length", "abort", "error"; empty while running
  StopReason stop_reason;     // what stopped it beyond EOS
  std::string error;          // why finish_reason is "error"
};

/// What one step added to one request.
struct OutputDelta {
  RequestId id{};
  std::string_view text;  // may be empty: held back, or half a character; valid until the next call
  bool finished = false;
};

/// Turns a request's tokens into text: detokenises incrementally, holds back what may become a stop
/// string, and ends the request when one is complete. One thread, beside the engine core.
class OutputProcessor {
 public:
  /// `tokenizer` and `core` must outlive this.
  OutputProcessor(const tokenizer::Tokenizer& tokenizer, EngineCore& core)
      : tokenizer_(&tokenizer), core_(&core) {}

  void add_request(RequestId id, const sampling::SamplingParams& params);

  /// Applies one update of the core.
  OutputDelta process(const EngineCore::Update& update);

  /// The whole answer so far. \pre added and not yet taken
  [[nodiscard]] const CompletionOutput& output(RequestId id) const;
  /// The final answer, which is then forgotten.
  [[nodiscard]] CompletionOutput take(RequestId id);

 private:
  struct State {
    State(const tokenizer::Tokenizer& tokenizer, const sampling::SamplingParams& params);

    tokenizer::IncrementalDetokenizer detokenizer;
    StopStringMatcher stop_strings;
    int min_tokens;
    bool include_stop_token_text;
    CompletionOutput output;
    std::string delta;  // text of the last step
    bool finished = false;
  };

  void append_token(State& state, const Request& request, int32_t token_id, bool finished_by_token);

  const tokenizer::Tokenizer* tokenizer_;
  EngineCore* core_;
  std::unordered_map<uint64_t, State> states_;
};

}  // namespace reprise::engine
