#include "reprise/engine/step_loop.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "reprise/engine/engine_core.h"

namespace reprise::engine {

StepLoop::StepLoop(EngineCore& core, const tokenizer::Tokenizer& tokenizer, OnRecord on_record)
    : core_(&core), outputs_(tokenizer), recorder_(std::move(on_record)) {}

void StepLoop::add_request(scheduler::RequestId id,
                           std::vector<int32_t> prompt_token_ids,
                           const sampling::SamplingParams& params,
                           scheduler::RequestOptions options) {
  // The core refuses parameters on which the outputs rely, such as an empty stop string.
  core_->add_request(id, std::move(prompt_token_ids), params, std::move(options));
  try {
    outputs_.add_request(id, params);
  } catch (...) {
    (void)core_->abort_request(id);
    throw;
  }
}

std::optional<OutputDelta> StepLoop::abort_request(scheduler::RequestId id) {
  const std::optional<scheduler::RequestUpdate> update = core_->abort_request(id);
  if (!update) {
    outputs_.remove_request(id);
    return std::nullopt;
  }
  std::optional<OutputDelta> delta = outputs_.process(std::span(&*update, 1));
  if (delta) recorder_.take(std::span(&*update, 1), *delta);
  return delta;
}

void StepLoop::step(const OnDelta& on_delta, const std::function<void()>& on_step) {
  std::span<const scheduler::RequestUpdate> updates = core_->step();
  if (on_step) on_step();
  if (updates.empty()) return;
  const runner::PhaseTimer timer(core_->clock(), runner::StepPhase::detokenise);
  while (!updates.empty()) {
    const scheduler::Request* request = updates.front().request;
    const auto end = std::ranges::find_if(
        updates,
        [request](const scheduler::RequestUpdate& update) { return update.request != request; });
    const auto of_request = updates.first(static_cast<size_t>(end - updates.begin()));
    updates = updates.subspan(of_request.size());
    std::optional<OutputDelta> delta = outputs_.process(of_request);
    if (!delta) continue;
    if (delta->finished && !of_request.back().finished) {
      core_->finish_request(delta->id, std::get<std::string>(delta->stop_reason));
    }
    recorder_.take(of_request, *delta);
    on_delta(std::move(*delta));
  }
}

}  // namespace reprise::engine
