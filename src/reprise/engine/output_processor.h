#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "reprise/engine/output_delta.h"
#include "reprise/scheduler/scheduler.h"
#include "reprise/scheduler/stop_string_matcher.h"
#include "reprise/tokenizer/incremental_detokenizer.h"

namespace reprise::engine {

/// Turns requests' tokens into text: detokenises incrementally, and holds back text that may become
/// a stop string. It does not know the engine core, so the caller ends requests. One thread.
class OutputProcessor {
 public:
  /// `tokenizer` must outlive this.
  explicit OutputProcessor(const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  void add_request(RequestId id, const sampling::SamplingParams& params);
  /// Forgets a request before its last delta.
  void remove_request(RequestId id) { states_.erase(static_cast<uint64_t>(id)); }

  /// Applies one update of the core; forgets the request with its last delta. nullopt when the
  /// request is unknown. When the delta is finished and the update is not, a stop string was found:
  /// then the caller must end the request in the core, with that stop string.
  [[nodiscard]] std::optional<OutputDelta> process(const RequestUpdate& update);

 private:
  struct State {
    State(const tokenizer::Tokenizer& tokenizer, const sampling::SamplingParams& params);

    tokenizer::IncrementalDetokenizer detokenizer;
    StopStringMatcher stop_strings;
    int min_tokens;
    bool include_stop_token_text;
    int32_t num_tokens = 0;  // so far
  };

  static void append_token(State& state, const RequestUpdate& update, OutputDelta& delta);

  const tokenizer::Tokenizer* tokenizer_;
  std::unordered_map<uint64_t, State> states_;
};

}  // namespace reprise::engine
