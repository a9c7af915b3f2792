#include "reprise/runner/step_parts.h"

#include <utility>

#include "reprise/runner/encoder_texts.h"

namespace reprise::runner {
namespace {

/// Gives slots to the adapters of the batch, and gives each token the number of its adapter's slot.
class AdapterPart final : public StepPart {
 public:
  AdapterPart(lora::AdapterSlots& slots, int32_t max_num_reqs) : slots_(&slots) {
    tokens_.reserve(static_cast<size_t>(max_num_reqs));
  }

  void stage(std::span<const scheduler::StepEntry> requests,
             const cudagraph::BatchDescriptor& descriptor,
             device::Stream& stream) override {
    if (!descriptor.has_lora) return;
    tokens_.clear();
    for (const scheduler::StepEntry& request : requests) {
      tokens_.push_back({.adapter = request.adapter, .num_tokens = request.query_len()});
    }
    slots_->stage(tokens_, descriptor.num_tokens, stream);
  }
  void stage_dummy(const cudagraph::BatchDescriptor& descriptor, device::Stream& stream) override {
    if (descriptor.has_lora) slots_->stage_dummy(descriptor.num_tokens, stream);
  }

 private:
  lora::AdapterSlots* slots_;
  std::vector<lora::AdapterTokens> tokens_;  // of the step's requests
};

/// Before a step, copies cached states of recurrent layers to the slots of requests that begin
/// after a cached prefix. After the step, copies the states at which later requests may begin.
class StatePart final : public StepPart {
 public:
  StatePart(kv_cache::StateCacheTensors& states, int32_t slots_per_req)
      : states_(&states), slots_per_req_(slots_per_req) {}

  void stage(std::span<const scheduler::StepEntry> requests,
             const cudagraph::BatchDescriptor& /*descriptor*/,
             device::Stream& stream) override {
    for (const scheduler::StepEntry& request : requests) {
      if (request.restored_state == kv_cache::kNullStateSlot) continue;
      states_->copy_slot(request.restored_state, request.state_slot, stream);
    }
  }
  void after(std::span<const scheduler::StepEntry> requests, device::Stream& stream) override {
    for (const scheduler::StepEntry& request : requests) {
      if (request.saved_state == kv_cache::kNullStateSlot) continue;
      const int32_t last_token = request.saved_end - request.num_computed_tokens - 1;
      states_->copy_slot(
          request.state_slot_after(last_token, slots_per_req_), request.saved_state, stream);
    }
  }

 private:
  kv_cache::StateCacheTensors* states_;
  int32_t slots_per_req_;
};

/// Gives the counters of experts the number of the step's tokens without padding.
class ExpertPart final : public StepPart {
 public:
  explicit ExpertPart(ExpertCounts& counts) : counts_(&counts) {}

  void stage(std::span<const scheduler::StepEntry> requests,
             const cudagraph::BatchDescriptor& /*descriptor*/,
             device::Stream& stream) override {
    int32_t num_tokens = 0;
    for (const scheduler::StepEntry& request : requests) num_tokens += request.query_len();
    counts_->stage(num_tokens, stream);
  }

 private:
  ExpertCounts* counts_;
};

}  // namespace

std::vector<std::unique_ptr<StepPart>> make_step_parts(const ModelRunnerOptions& options,
                                                       models::CausalLM& model,
                                                       kv_cache::StateCacheTensors& states,
                                                       StepAttention& attention,
                                                       Execution& execution) {
  std::vector<std::unique_ptr<StepPart>> parts;
  if (options.limits.has_encoder) {
    parts.push_back(std::make_unique<EncoderTexts>(options.limits, model, attention, execution));
  }
  if (options.expert_counts != nullptr) {
    parts.push_back(std::make_unique<ExpertPart>(*options.expert_counts));
  }
  if (options.states.num_layers > 0) {
    parts.push_back(std::make_unique<StatePart>(states, options.limits.state_slots_per_req));
  }
  if (options.adapters != nullptr) {
    parts.push_back(std::make_unique<AdapterPart>(*options.adapters, options.limits.max_num_reqs));
  }
  return parts;
}

}  // namespace reprise::runner
