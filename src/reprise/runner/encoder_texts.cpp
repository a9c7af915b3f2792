#include "reprise/runner/encoder_texts.h"

namespace reprise::runner {

BatchLimits limits_of_encoder(const BatchLimits& limits) noexcept {
  return {.max_num_tokens = limits.max_blocks_per_req * limits.block_size,
          .max_num_reqs = 1,
          .max_blocks_per_req = limits.max_blocks_per_req,
          .block_size = limits.block_size};
}

EncoderTexts::EncoderTexts(const BatchLimits& limits,
                           models::CausalLM& model,
                           StepAttention& attention,
                           Execution& execution)
    : model_(&model),
      attention_(&attention),
      batch_(limits_of_encoder(limits), execution.device(), execution.executor()) {}

void EncoderTexts::stage(std::span<const scheduler::StepEntry> requests,
                         const cudagraph::BatchDescriptor& /*descriptor*/,
                         device::Stream& stream) {
  for (const scheduler::StepEntry& request : requests) {
    if (request.encoder_token_ids.empty()) continue;
    const auto num_tokens = static_cast<int32_t>(request.encoder_token_ids.size());
    const scheduler::StepEntry text{.token_ids = request.encoder_token_ids,
                                    .block_ids = request.encoder_block_ids};
    batch_.stage({&text, 1}, {.num_tokens = num_tokens, .num_reqs = 1}, stream);
    const attention::AttentionMetadata metadata = batch_.attention_metadata();
    const cudagraph::BatchDescriptor descriptor{.num_tokens = num_tokens};
    (void)attention_->prepare(metadata, descriptor, cudagraph::CudagraphRuntimeMode::NONE, nullptr);
    cudagraph::ForwardContext context{
        .descriptor = descriptor, .stream = &stream, .attention = &metadata};
    model_->encode(context, batch_.input_ids(), batch_.positions());
    // Waits, because the next text is staged into the same buffer.
    stream.synchronize();
  }
}

}  // namespace reprise::runner
