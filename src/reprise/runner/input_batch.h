#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/attention/attention_metadata.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/block_pool.h"
#include "reprise/kv_cache/state_slot_pool.h"
#include "reprise/scheduler/step_entry.h"
#include "reprise/tensor/tensor.h"

namespace reprise::runner {

/// The largest possible step. Persistent buffers are allocated for it at the start.
struct BatchLimits {
  int32_t max_num_tokens = 0;
  int32_t max_num_reqs = 0;
  /// The number of rows of logits from which the tokens of one request are sampled: 1 + speculative
  /// tokens.
  int32_t max_sampled_rows_per_req = 1;
  /// The number of further rows of logits, for the log-probabilities of prompt tokens.
  int32_t max_num_prompt_logits = 0;
  int32_t max_blocks_per_req = 0;
  int32_t block_size = 16;
  /// The number that is added to the positions of a second text; 0: the model does not distinguish
  /// texts.
  int32_t second_text_offset = 0;
  bool has_encoder = false;  // requests have blocks for the text of an encoder
  /// The number of state slots of each request, see kv_cache::StateSlotPool; 0: the model has no
  /// recurrent layers.
  int32_t state_slots_per_req = 0;

  [[nodiscard]] int32_t max_num_sampled_rows() const noexcept {
    return max_num_reqs * max_sampled_rows_per_req;
  }
  [[nodiscard]] int32_t max_num_logits() const noexcept {
    return max_num_sampled_rows() + max_num_prompt_logits;
  }
};

/// The tokens of a dummy batch.
enum class DummyTokens : uint8_t { of_requests, padding };

/// The sizes to which a batch is padded: its own sizes, or those of a graph.
struct StagedShape {
  int32_t num_tokens = 0;
  int32_t num_reqs = 0;
  int32_t num_logits_rows = 0;
};

/// The persistent buffers a model reads its batch from. Their addresses depend only on the number
/// of staged tokens. stage() overwrites them for each step, padding included, and cuts the views
/// below to the staged shape.
///
/// Padding has these values: token ids and positions are 0, slots are -1 (nothing is written to the
/// cache), query_start_loc repeats its last real value, seq_lens are 0, state slots are the null
/// slot (0), rows of the block table hold null blocks (0), and logits indices are 0 (any valid row
/// would do). The padding tokens of a request follow its tokens, with token id 0, position 0 and
/// slot -1. They count in its length, so their attention may read null blocks. Source: the padding
/// of vLLM's V1 model runner. Unlike vLLM, padding also sets token ids to 0, so that the embedding
/// never reads outside of its table.
class InputBatch {
 public:
  InputBatch(const BatchLimits& limits, device::Device& device, OpExecutor& executor);

  /// Writes the batch of one step, without allocating. \pre the requests fit into `shape`, and
  /// `shape` fits into the limits.
  void stage(std::span<const scheduler::StepEntry> requests,
             const StagedShape& shape,
             device::Stream& stream);

  /// Writes a dummy batch with exactly the sizes of `shape`. The tokens are spread evenly over the
  /// requests, each context is as long as its query, and no cache slot is written. If a request
  /// would get more tokens than its row of the block table can hold, the surplus tokens become
  /// padding. With `DummyTokens::padding` all tokens are padding, and no request has tokens.
  void stage_dummy(const StagedShape& shape,
                   device::Stream& stream,
                   DummyTokens tokens = DummyTokens::of_requests);
  /// The same, with requests for the sizes of `batch` only; the rest of `shape` is padding. \pre
  /// `batch` fits into `shape`
  void stage_dummy(const StagedShape& shape, const StagedShape& batch, device::Stream& stream);

  // Views of the arrays with the sizes of the last staged shape.
  [[nodiscard]] Tensor input_ids() const;       // int32[num_tokens]
  [[nodiscard]] Tensor positions() const;       // int32[num_tokens]
  [[nodiscard]] Tensor logits_indices() const;  // int32[num_logits_rows]
  [[nodiscard]] Tensor num_logits() const;      // int32[1]
  [[nodiscard]] attention::AttentionMetadata attention_metadata() const;

  /// The slot in the cache of each staged token, -1 for padding. Valid until the next batch is
  /// staged.
  [[nodiscard]] std::span<const int32_t> host_slot_mapping() const noexcept {
    return {host_.data() + layout_.slot_mapping, static_cast<size_t>(shape_.num_tokens)};
  }
  [[nodiscard]] int32_t num_real_reqs() const noexcept { return num_real_reqs_; }
  /// The state slots that the tokens of a real request change, each once. Empty without recurrent
  /// layers. Valid until the next batch is staged.
  [[nodiscard]] std::span<const int32_t> host_state_slots(int32_t request) const noexcept;

  [[nodiscard]] const StagedShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const BatchLimits& limits() const noexcept { return limits_; }
  /// The single buffer that holds all arrays.
  [[nodiscard]] device::BufferView memory() const noexcept { return device_buffer_.view(); }

 private:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  // The largest number of copies for the block table. One copy costs the host about 3 us, as much
  // as 32 KiB more in a longer copy.
  static constexpr size_t kMostTableCopies = 16;
  static constexpr size_t kGapPerCopy = (size_t{32} << 10) / sizeof(int32_t);

  // The place of each array in the buffer, in elements. The arrays of tokens are as long as the
  // staged shape needs, so that one short copy uploads everything before the block table. All
  // places depend on the number of tokens alone: a PIECEWISE graph serves any number of requests
  // and of logits, and replays only while its addresses stay.
  struct Layout {
    size_t num_logits = 0;
    size_t query_start_loc = 0;
    size_t seq_lens = 0;
    size_t state_indices = 0;
    size_t encoder_lens = 0;
    size_t encoder_block_table = 0;
    size_t input_ids = 0;
    size_t positions = 0;
    size_t slot_mapping = 0;
    size_t logits_indices = 0;
    size_t total = 0;
  };

  // The state of a block table row. A row is long, and most rows stay as they are from one step to
  // the next, so only the entries that differ from the device's are uploaded.
  struct TableRow {
    int32_t count = 0;  // the number of entries that may differ from the null block
    // The first entry that may differ on the device.
    int32_t first_changed = 0;
    int32_t end_changed = 0;
  };

  static Layout make_layout(const BatchLimits& limits, int32_t num_tokens, int32_t num_logits);
  void begin_stage(const StagedShape& shape);
  [[nodiscard]] int32_t* table_row(int32_t index) noexcept;
  [[nodiscard]] int32_t* host(size_t offset) noexcept { return host_.data() + offset; }
  [[nodiscard]] Tensor view(size_t offset, Shape shape) const;
  int32_t stage_request(const scheduler::StepEntry& request, int32_t index, int32_t first_token);
  /// Writes what the tokens of request `index` need to read the encoder's text. A request without
  /// blocks is padding.
  void stage_encoder_text(int32_t index, int32_t len, std::span<const kv_cache::BlockId> block_ids);
  void stage_table_row(int32_t row_index, std::span<const kv_cache::BlockId> block_ids);
  void pad(int32_t num_rows, int32_t num_tokens, int32_t num_logits);
  void pad_tokens(int32_t from, int32_t to);
  int32_t stage_logits_indices(const scheduler::StepEntry& request,
                               int32_t end_token,
                               int32_t num_logits);
  void upload(device::Stream& stream);
  void upload_table(device::Stream& stream);
  void upload_table(device::Stream& stream, const Range& range);
  /// The entries of a row that may differ on the device; empty if none does.
  [[nodiscard]] Range changes_of(size_t row) const noexcept;
  [[nodiscard]] size_t find_changed_ranges(size_t widest_gap);

  BatchLimits limits_;
  size_t block_table_;    // the offset of the block table, after the largest layout
  Layout layout_;         // of the staged shape
  OpExecutor* executor_;  // owned by the model runner
  bool is_host_accessible_;
  device::Buffer device_buffer_;
  std::vector<int32_t> host_;         // mirror of the device buffer
  std::vector<TableRow> table_rows_;  // one per row of the mirror's block table
  // The ranges of the block table to upload, in elements; find_changed_ranges() returned their
  // number.
  std::array<Range, kMostTableCopies + 1> changed_ranges_{};
  StagedShape shape_;
  int32_t num_real_reqs_ = 0;
};

}  // namespace reprise::runner
