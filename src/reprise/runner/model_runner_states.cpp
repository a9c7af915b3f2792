// The members of ModelRunner that copy the states of recurrent layers between steps.
#include "reprise/runner/model_runner.h"

namespace reprise::engine {

void ModelRunner::restore_states(std::span<const BatchRequest> requests) {
  for (const BatchRequest& request : requests) {
    if (request.restored_state == kv_cache::kNullStateSlot) continue;
    states_.copy_slot(request.restored_state, request.state_slot, execution_->stream());
  }
}

void ModelRunner::save_states(std::span<const BatchRequest> requests) {
  for (const BatchRequest& request : requests) {
    if (request.saved_state == kv_cache::kNullStateSlot) continue;
    states_.copy_slot(request.state_slot, request.saved_state, execution_->stream());
  }
}

}  // namespace reprise::engine
