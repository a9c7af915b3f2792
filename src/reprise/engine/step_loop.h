#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "reprise/engine/output_delta.h"
#include "reprise/engine/output_processor.h"

namespace reprise::engine {

class EngineCore;

/// Drives an engine core for requests that want text: each step's updates become deltas, and a
/// request whose text is complete ends in the core. One thread; borrows core and tokenizer.
class StepLoop {
 public:
  using OnDelta = std::function<void(OutputDelta&&)>;

  StepLoop(EngineCore& core, const tokenizer::Tokenizer& tokenizer);

  /// `id` comes from EngineCore::new_request_id(). \throws InvalidArgument when the request can
  /// never run; then nothing has changed
  void add_request(RequestId id,
                   std::vector<int32_t> prompt_token_ids,
                   const sampling::SamplingParams& params,
                   RequestOptions options = {});
  /// Ends a request. Gives its last delta, or nullopt when the request is unknown or has ended.
  std::optional<OutputDelta> abort_request(RequestId id);

  /// Runs one step. Calls `on_step` (which may be empty) when the step has results, then `on_delta`
  /// for each request that the step changed. \throws exceptions of EngineCore::step
  void step(const OnDelta& on_delta, const std::function<void()>& on_step = {});

 private:
  EngineCore* core_;
  OutputProcessor outputs_;
};

}  // namespace reprise::engine
