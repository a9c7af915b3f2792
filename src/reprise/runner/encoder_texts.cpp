#include "reprise/runner/encoder_texts.h"

#include "reprise/runner/model_runner.h"

namespace reprise::engine {

BatchLimits limits_of_encoder(const BatchLimits& limits) noexcept {
  return {.max_num_tokens = limits.max_blocks_per_req * limits.block_size,
          .max_num_reqs = 1,
          .max_blocks_per_req = limits.max_blocks_per_req,
          .block_size = limits.block_size};
}

void ModelRunner::encode_texts(std::span<const BatchRequest> requests) {
  if (!encoder_batch_) return;
  device::Stream& stream = execution_->stream();
  for (const BatchRequest& request : requests) {
    if (request.encoder_token_ids.empty()) continue;
    const auto num_tokens = static_cast<int32_t>(request.encoder_token_ids.size());
    const BatchRequest text{.token_ids = request.encoder_token_ids,
                            .block_ids = request.encoder_block_ids};
    encoder_batch_->stage({&text, 1}, {.num_tokens = num_tokens, .num_reqs = 1}, stream);
    const attention::AttentionMetadata metadata = encoder_batch_->attention_metadata();
    const cudagraph::BatchDescriptor descriptor{.num_tokens = num_tokens};
    execution_->executor().set_attention(attention_->prepare_step(metadata, descriptor, stream));
    cudagraph::ForwardContext context{
        .descriptor = descriptor, .stream = &stream, .attention = &metadata, .bindings = bindings_};
    model_->encode(context, encoder_batch_->input_ids(), encoder_batch_->positions());
    // The next text is staged into the same buffer.
    stream.synchronize();
  }
}

}  // namespace reprise::engine
