#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "reprise/engine/output_delta.h"
#include "reprise/engine/output_processor.h"
#include "reprise/engine/request_recorder.h"

namespace reprise::engine {

class EngineCore;

/// Runs an engine core for callers that want text. It turns the updates of each step into deltas,
/// and ends a request in the core when its text is complete. Belongs to one thread; borrows core
/// and tokenizer.
class StepLoop {
 public:
  using OnDelta = std::function<void(OutputDelta&&)>;

  /// `on_record`: see RequestRecorder; may be empty.
  StepLoop(EngineCore& core, const tokenizer::Tokenizer& tokenizer, OnRecord on_record = {});

  /// Adds a request. `id` comes from EngineCore::new_request_id().
  /// \throws InvalidArgument if the request can never run; then nothing has changed
  void add_request(scheduler::RequestId id,
                   std::vector<int32_t> prompt_token_ids,
                   const sampling::SamplingParams& params,
                   scheduler::RequestOptions options = {});
  /// Ends a request and returns its last delta. nullopt if the request is unknown or has ended.
  std::optional<OutputDelta> abort_request(scheduler::RequestId id);

  /// Runs one step. If the step has results, calls `on_step` (which may be empty), then `on_delta`
  /// for each request that changed. \throws exceptions of EngineCore::step
  void step(const OnDelta& on_delta, const std::function<void()>& on_step = {});

 private:
  EngineCore* core_;
  OutputProcessor outputs_;
  RequestRecorder recorder_;
};

}  // namespace reprise::engine
