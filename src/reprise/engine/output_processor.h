#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "reprise/engine/output_delta.h"
#include "reprise/engine/stop_string_matcher.h"
#include "reprise/scheduler/scheduler.h"
#include "reprise/tokenizer/incremental_detokenizer.h"

namespace reprise::engine {

/// Turns requests' tokens into text: detokenises incrementally, and holds back text that may be the
/// beginning of a stop string. It has no access to the engine core, so the caller must end requests
/// there. Belongs to one thread.
class OutputProcessor {
 public:
  /// `tokenizer` must outlive this object.
  explicit OutputProcessor(const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  void add_request(scheduler::RequestId id, const sampling::SamplingParams& params);
  /// Forgets a request that has not had its last delta.
  void remove_request(scheduler::RequestId id) { states_.erase(static_cast<uint64_t>(id)); }

  /// Turns the updates that one step of the core made to one request into a delta. After the last
  /// delta of a request it forgets the request. nullopt if the request is unknown. If
  /// delta.finished is set but the last update is not `finished`, a stop string was found: the
  /// caller must then end the request in the core with that stop string. \pre `updates` is not
  /// empty
  [[nodiscard]] std::optional<OutputDelta> process(
      std::span<const scheduler::RequestUpdate> updates);

 private:
  struct State {
    State(const tokenizer::Tokenizer& tokenizer, const sampling::SamplingParams& params);

    tokenizer::IncrementalDetokenizer detokenizer;
    StopStringMatcher stop_strings;
    int min_tokens;
    bool include_stop_token_text;
    int32_t num_tokens = 0;  // so far
  };

  static void append_token(State& state,
                           const scheduler::RequestUpdate& update,
                           OutputDelta& delta);

  const tokenizer::Tokenizer* tokenizer_;
  std::unordered_map<uint64_t, State> states_;
};

}  // namespace reprise::engine
