#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/attention/attention_metadata.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/block_pool.h"
#include "reprise/tensor/tensor.h"

namespace reprise::engine {

/// The largest possible step. Persistent buffers are allocated for it at the start.
struct BatchLimits {
  int32_t max_num_tokens = 0;
  int32_t max_num_reqs = 0;
  /// Rows of logits in addition to one per request. They give the log-probabilities of prompt
  /// tokens.
  int32_t max_num_prompt_logits = 0;
  int32_t max_blocks_per_req = 0;
  int32_t block_size = 16;

  [[nodiscard]] int32_t max_num_logits() const noexcept {
    return max_num_reqs + max_num_prompt_logits;
  }
};

/// One request's part of a step, in the form that the model reads. Borrows from the request.
struct BatchRequest {
  std::span<const int32_t> token_ids;  // the new tokens of this step, at least one
  int32_t num_computed_tokens = 0;     // positions already in the cache
  std::span<const kv_cache::BlockId> block_ids;
  // Whether the logits of the last token are needed, to sample the next token.
  bool samples = false;
  // Tokens before the last one whose logits are needed, for log-probabilities of the prompt.
  int32_t first_prompt_logit = 0;  // index into token_ids
  int32_t num_prompt_logits = 0;

  [[nodiscard]] int32_t num_logits() const noexcept {
    return num_prompt_logits + static_cast<int32_t>(samples);
  }
};

/// The sizes to which a batch is padded: its own sizes, or those of a graph.
struct StagedShape {
  int32_t num_tokens = 0;
  int32_t num_reqs = 0;
  int32_t num_logits_rows = 0;
};

/// The persistent buffers from which a model reads its batch. Their addresses never change. For
/// each step, stage() overwrites them, padding included. The views below have the sizes of the last
/// staged shape.
///
/// Padding has these values: token ids and positions are 0, slots are -1 (nothing is written to the
/// cache), query_start_loc repeats its last real value, seq_lens are 0, rows of the block table
/// hold null blocks (0), and logits indices are 0 (any valid row would do).
/// Source: the padding of vLLM's V1 model runner. Unlike vLLM, padding also sets token ids to 0, so
/// that the embedding never reads outside of its table.
class InputBatch {
 public:
  InputBatch(const BatchLimits& limits, device::Device& device, OpExecutor& executor);

  /// Writes the batch of one step, without allocating. \pre the requests fit into `shape`, and
  /// `shape` fits into the limits.
  void stage(std::span<const BatchRequest> requests,
             const StagedShape& shape,
             device::Stream& stream);

  /// Writes a dummy batch with exactly the sizes of `shape`. The tokens are spread evenly over the
  /// requests, each context is as long as its query, and no cache slot is written. If a request
  /// would get more tokens than its row of the block table can hold, the surplus tokens become
  /// padding.
  void stage_dummy(const StagedShape& shape, device::Stream& stream);

  // Views with the sizes of the last staged shape.
  [[nodiscard]] Tensor input_ids() const;       // int32[num_tokens]
  [[nodiscard]] Tensor positions() const;       // int32[num_tokens]
  [[nodiscard]] Tensor logits_indices() const;  // int32[num_logits_rows]
  [[nodiscard]] Tensor num_logits() const;      // int32[1]
  [[nodiscard]] attention::AttentionMetadata attention_metadata() const;

  [[nodiscard]] const StagedShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const BatchLimits& limits() const noexcept { return limits_; }
  /// The single buffer that holds all arrays.
  [[nodiscard]] device::BufferView memory() const noexcept { return device_buffer_.view(); }

 private:
  // Where each array starts in the buffer, in elements.
  struct Layout {
    size_t input_ids = 0;
    size_t positions = 0;
    size_t slot_mapping = 0;
    size_t query_start_loc = 0;
    size_t seq_lens = 0;
    size_t logits_indices = 0;
    size_t num_logits = 0;
    size_t block_table = 0;
    size_t total = 0;
  };

  // Which entries of a block table row are set. A row is long and most of its entries are the null
  // block, so stage() writes only entries that may differ from it.
  struct TableRow {
    int32_t count = 0;    // the first `count` entries may differ from the null block
    int32_t changed = 0;  // number of entries that the last stage() wrote
  };

  static Layout make_layout(const BatchLimits& limits);
  [[nodiscard]] int32_t* host(size_t offset) noexcept { return host_.data() + offset; }
  [[nodiscard]] Tensor view(size_t offset, Shape shape) const;
  int32_t stage_request(const BatchRequest& request, int32_t index, int32_t first_token);
  void stage_table_row(int32_t row_index, std::span<const kv_cache::BlockId> block_ids);
  void pad(int32_t num_rows, int32_t num_tokens, int32_t num_logits);
  int32_t stage_logits_indices(const BatchRequest& request, int32_t end_token, int32_t num_logits);
  void upload(device::Stream& stream);

  BatchLimits limits_;
  Layout layout_;
  OpExecutor* executor_;  // owned by the model runner
  bool is_host_accessible_;
  device::Buffer device_buffer_;
  std::vector<int32_t> host_;         // copy of the buffer's content on the host
  std::vector<TableRow> table_rows_;  // one for each row of the block table in host_
  StagedShape shape_;
  int32_t num_real_reqs_ = 0;
};

}  // namespace reprise::engine
