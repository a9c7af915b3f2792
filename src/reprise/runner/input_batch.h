#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/attention/attention_metadata.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/block_pool.h"
#include "reprise/tensor/tensor.h"

namespace reprise::engine {

/// The largest step there can be. Every persistent buffer has this size from the start.
struct BatchLimits {
  int32_t max_num_tokens = 0;
  int32_t max_num_reqs = 0;
  /// Rows of logits beyond one per request: of prompts whose log-probabilities are wanted.
  int32_t max_num_prompt_logits = 0;
  int32_t max_blocks_per_req = 0;
  int32_t block_size = 16;

  [[nodiscard]] int32_t max_num_logits() const noexcept {
    return max_num_reqs + max_num_prompt_logits;
  }
};

/// One request's part of a step, as the model sees it. Borrows from the request.
struct BatchRow {
  std::span<const int32_t> token_ids;  // the new tokens of this step, at least one
  int32_t num_computed_tokens = 0;     // positions already in the cache
  std::span<const kv_cache::BlockId> block_ids;
  bool samples = false;  // logits of the last token are wanted
  // Logits wanted of tokens before the last one, for log-probabilities of the prompt.
  int32_t first_prompt_logit = 0;  // index into token_ids
  int32_t num_prompt_logits = 0;

  [[nodiscard]] int32_t num_logits() const noexcept {
    return num_prompt_logits + static_cast<int32_t>(samples);
  }
};

/// Shape a step is staged at: the real one, or a graph's.
struct StagedShape {
  int32_t num_tokens = 0;
  int32_t num_reqs = 0;
  int32_t num_logits_rows = 0;
};

/// The persistent buffers a model reads its batch from. Their addresses never change; stage() fills
/// them anew for each step, padding included, and the views below are cut to the staged shape.
///
/// Padding: token ids and positions 0, slot -1 (nothing is written), query_start_loc repeats the
/// last real value, seq_lens 0, block table rows and logits indices 0 (the null block; any row).
/// Source: what vLLM's V1 model runner puts there; differs in zeroing token ids, so that embedding
/// look-ups stay inside the table.
class InputBatch {
 public:
  InputBatch(const BatchLimits& limits, device::Device& device, OpExecutor& executor);

  /// Writes one step. Does not allocate. \pre the rows fit `shape`, `shape` fits the limits.
  void stage(std::span<const BatchRow> rows, const StagedShape& shape, device::Stream& stream);

  /// Writes a made-up batch of exactly `shape`: the tokens are spread evenly over the requests, no
  /// cache slot is written, contexts are as long as the queries. No request gets more tokens than
  /// its row of the block table can hold; tokens beyond that are padding.
  void stage_dummy(const StagedShape& shape, device::Stream& stream);

  // Views of the last staged shape.
  [[nodiscard]] Tensor input_ids() const;       // int32[num_tokens]
  [[nodiscard]] Tensor positions() const;       // int32[num_tokens]
  [[nodiscard]] Tensor logits_indices() const;  // int32[num_logits_rows]
  [[nodiscard]] Tensor num_logits() const;      // int32[1]
  [[nodiscard]] attention::AttentionMetadata attention_metadata() const;

  [[nodiscard]] const StagedShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const BatchLimits& limits() const noexcept { return limits_; }
  /// The one buffer all of this lives in.
  [[nodiscard]] device::BufferView memory() const noexcept { return device_buffer_.view(); }

 private:
  // Where each array lies in the buffer, in elements.
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

  // A row of the block table: long, and mostly null blocks that need not be written again.
  struct TableRow {
    int32_t count = 0;    // entries that may be other than the null block
    int32_t changed = 0;  // entries that the last stage() wrote
  };

  static Layout make_layout(const BatchLimits& limits);
  [[nodiscard]] int32_t* host(size_t offset) noexcept { return host_.data() + offset; }
  [[nodiscard]] Tensor view(size_t offset, Shape shape) const;
  int32_t stage_row(const BatchRow& row, int32_t row_index, int32_t first_token);
  void stage_table_row(int32_t row_index, std::span<const kv_cache::BlockId> block_ids);
  void pad(int32_t num_rows, int32_t num_tokens, int32_t num_logits);
  int32_t stage_logits_indices(const BatchRow& row, int32_t end_token, int32_t num_logits);
  void upload(device::Stream& stream);

  BatchLimits limits_;
  Layout layout_;
  OpExecutor* executor_;  // owned by the model runner
  bool is_host_accessible_;
  device::Buffer device_buffer_;
  std::vector<int32_t> host_;         // mirror of the device buffer
  std::vector<TableRow> table_rows_;  // of the mirror
  StagedShape shape_;
  int32_t num_real_reqs_ = 0;
};

}  // namespace reprise::engine
