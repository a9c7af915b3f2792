#include "reprise/runner/input_batch.h"

#include <algorithm>

namespace reprise::runner {
namespace {

// Each array starts at a multiple of a cache line (64 bytes).
constexpr size_t kAlignment = 64 / sizeof(int32_t);
constexpr int32_t kNoSlot = -1;
constexpr auto kNoState = static_cast<int32_t>(kv_cache::kNullStateSlot);

size_t to_size(int32_t value) { return static_cast<size_t>(value); }

}  // namespace

InputBatch::Layout InputBatch::make_layout(const BatchLimits& limits,
                                           int32_t num_tokens,
                                           int32_t num_logits) {
  Layout layout;
  const auto place = [&layout](size_t& offset, int32_t count) {
    offset = layout.total;
    layout.total = (layout.total + to_size(count) + kAlignment - 1) / kAlignment * kAlignment;
  };
  place(layout.num_logits, 1);
  place(layout.query_start_loc, limits.max_num_reqs + 1);
  place(layout.seq_lens, limits.max_num_reqs);
  place(layout.state_indices, limits.max_num_reqs * limits.state_slots_per_req);
  place(layout.encoder_lens, limits.has_encoder ? limits.max_num_reqs : 0);
  place(layout.encoder_block_table,
        limits.has_encoder ? limits.max_num_reqs * limits.max_blocks_per_req : 0);
  place(layout.input_ids, num_tokens);
  place(layout.positions, num_tokens);
  place(layout.slot_mapping, num_tokens);
  place(layout.logits_indices, num_logits);
  return layout;
}

InputBatch::InputBatch(const BatchLimits& limits, device::Device& device, OpExecutor& executor)
    : limits_(limits),
      block_table_(make_layout(limits, limits.max_num_tokens, limits.max_num_logits()).total),
      executor_(&executor),
      is_host_accessible_(device.is_host_accessible()),
      host_(block_table_ + to_size(limits.max_num_reqs) * to_size(limits.max_blocks_per_req)),
      table_rows_(to_size(limits.max_num_reqs)) {
  device_buffer_ = device.allocate(host_.size() * sizeof(int32_t));
}

void InputBatch::begin_stage(const StagedShape& shape) {
  shape_ = shape;
  layout_ = make_layout(limits_, shape.num_tokens, shape.num_logits_rows);
}

int32_t* InputBatch::table_row(int32_t index) noexcept {
  return host(block_table_) + to_size(index) * to_size(limits_.max_blocks_per_req);
}

void InputBatch::stage(std::span<const scheduler::StepEntry> requests,
                       const StagedShape& shape,
                       device::Stream& stream) {
  REPRISE_ASSERT(shape.num_tokens <= limits_.max_num_tokens &&
                     shape.num_reqs <= limits_.max_num_reqs &&
                     requests.size() <= to_size(shape.num_reqs),
                 "{} requests staged as {} tokens of {} requests; the limits are {} and {}",
                 requests.size(),
                 shape.num_tokens,
                 shape.num_reqs,
                 limits_.max_num_tokens,
                 limits_.max_num_reqs);
  begin_stage(shape);
  int32_t num_tokens = 0;
  int32_t num_logits = 0;
  int32_t index = 0;
  for (const scheduler::StepEntry& request : requests) {
    num_tokens += stage_request(request, index++, num_tokens);
    num_logits = stage_logits_indices(request, num_tokens, num_logits);
  }
  num_real_reqs_ = index;
  pad(index, num_tokens, num_logits);
  upload(stream);
}

int32_t InputBatch::stage_logits_indices(const scheduler::StepEntry& request,
                                         int32_t end_token,
                                         int32_t num_logits) {
  REPRISE_ASSERT(num_logits + request.num_logits() <= shape_.num_logits_rows,
                 "the requests have more rows of logits than the {} staged ones",
                 shape_.num_logits_rows);
  int32_t* indices = host(layout_.logits_indices);
  const int32_t first_token = end_token - request.query_len();
  for (int32_t i = 0; i < request.num_prompt_logits; ++i) {
    indices[num_logits++] = first_token + request.first_prompt_logit + i;
  }
  if (!request.samples) return num_logits;
  const int32_t last_token = end_token - request.num_padding_tokens - 1;
  for (int32_t i = request.num_drafts; i >= 0; --i) indices[num_logits++] = last_token - i;
  return num_logits;
}

int32_t InputBatch::stage_request(const scheduler::StepEntry& request,
                                  int32_t index,
                                  int32_t first_token) {
  const auto num_tokens = static_cast<int32_t>(request.token_ids.size());
  const int32_t query_len = request.query_len();
  const int32_t num_slots = request.num_computed_tokens + num_tokens;
  const int32_t seq_len = request.num_computed_tokens + query_len;
  REPRISE_ASSERT(first_token + query_len <= shape_.num_tokens &&
                     request.block_ids.size() <= to_size(limits_.max_blocks_per_req) &&
                     request.block_ids.size() * to_size(limits_.block_size) >= to_size(num_slots) &&
                     seq_len <= limits_.max_blocks_per_req * limits_.block_size,
                 "request {}: {} tokens at index {} with {} blocks do not fit the {} staged tokens",
                 index,
                 query_len,
                 first_token,
                 request.block_ids.size(),
                 shape_.num_tokens);
  std::copy(
      request.token_ids.begin(), request.token_ids.end(), host(layout_.input_ids) + first_token);
  for (int32_t i = 0; i < num_tokens; ++i) {
    const int32_t position = request.num_computed_tokens + i;
    const auto block =
        static_cast<int32_t>(request.block_ids[to_size(position / limits_.block_size)]);
    const bool is_second = position >= request.second_text_begin;
    host(layout_.positions)[first_token + i] =
        position + (is_second ? limits_.second_text_offset : 0);
    host(layout_.slot_mapping)[first_token + i] =
        block * limits_.block_size + position % limits_.block_size;
  }
  pad_tokens(first_token + num_tokens, first_token + query_len);
  host(layout_.query_start_loc)[index] = first_token;
  host(layout_.seq_lens)[index] = seq_len;
  int32_t* slots = host(layout_.state_indices) + int64_t{index} * limits_.state_slots_per_req;
  for (int32_t i = 0; i < limits_.state_slots_per_req; ++i) {
    slots[i] = static_cast<int32_t>(request.state_slot_after(i, limits_.state_slots_per_req));
  }
  stage_encoder_text(index, request.encoder_len, request.encoder_block_ids);
  stage_table_row(index, request.block_ids);
  return query_len;
}

void InputBatch::stage_encoder_text(int32_t index,
                                    int32_t len,
                                    std::span<const kv_cache::BlockId> block_ids) {
  if (!limits_.has_encoder) return;
  host(layout_.encoder_lens)[index] = len;
  const size_t width = to_size(limits_.max_blocks_per_req);
  int32_t* row = host(layout_.encoder_block_table) + to_size(index) * width;
  for (const kv_cache::BlockId block : block_ids) *row++ = static_cast<int32_t>(block);
  std::fill_n(row, width - block_ids.size(), static_cast<int32_t>(kv_cache::kNullBlock));
}

void InputBatch::pad_tokens(int32_t from, int32_t to) {
  std::fill(host(layout_.input_ids) + from, host(layout_.input_ids) + to, 0);
  std::fill(host(layout_.positions) + from, host(layout_.positions) + to, 0);
  std::fill(host(layout_.slot_mapping) + from, host(layout_.slot_mapping) + to, kNoSlot);
}

void InputBatch::stage_table_row(int32_t row_index, std::span<const kv_cache::BlockId> block_ids) {
  int32_t* entries = table_row(row_index);
  TableRow& row = table_rows_[to_size(row_index)];
  const auto count = static_cast<int32_t>(block_ids.size());
  int32_t same = 0;
  while (same < std::min(count, row.count) &&
         entries[same] == static_cast<int32_t>(block_ids[to_size(same)])) {
    ++same;
  }
  for (int32_t i = same; i < count; ++i) entries[i] = static_cast<int32_t>(block_ids[to_size(i)]);
  for (int32_t i = count; i < row.count; ++i)
    entries[i] = static_cast<int32_t>(kv_cache::kNullBlock);
  const int32_t end = std::max(count, row.count);
  row.count = count;
  if (same == end) return;
  // A step that could not be uploaded may have left changes too.
  const bool has_changes = row.first_changed < row.end_changed;
  row.first_changed = has_changes ? std::min(row.first_changed, same) : same;
  row.end_changed = std::max(row.end_changed, end);
}

void InputBatch::pad(int32_t num_rows, int32_t num_tokens, int32_t num_logits) {
  const auto fill_tail = [this](size_t offset, int32_t from, int32_t to, int32_t value) {
    std::fill(host(offset) + from, host(offset) + to, value);
  };
  pad_tokens(num_tokens, shape_.num_tokens);
  fill_tail(layout_.query_start_loc, num_rows, shape_.num_reqs + 1, num_tokens);
  fill_tail(layout_.seq_lens, num_rows, shape_.num_reqs, 0);
  const int32_t slots_per_req = limits_.state_slots_per_req;
  fill_tail(
      layout_.state_indices, num_rows * slots_per_req, shape_.num_reqs * slots_per_req, kNoState);
  for (int32_t row = num_rows; row < shape_.num_reqs; ++row) stage_table_row(row, {});
  for (int32_t row = num_rows; row < shape_.num_reqs; ++row) stage_encoder_text(row, 0, {});
  fill_tail(layout_.logits_indices, num_logits, shape_.num_logits_rows, 0);
  host(layout_.num_logits)[0] = num_logits;
}

void InputBatch::stage_dummy(const StagedShape& shape, device::Stream& stream, DummyTokens tokens) {
  StagedShape batch = shape;
  if (tokens == DummyTokens::padding) batch.num_tokens = 0;
  stage_dummy(shape, batch, stream);
}

void InputBatch::stage_dummy(const StagedShape& shape,
                             const StagedShape& batch,
                             device::Stream& stream) {
  begin_stage(shape);
  const int32_t longest = limits_.max_blocks_per_req * limits_.block_size;
  const int32_t even_share = batch.num_tokens / std::max(batch.num_reqs, 1);
  const int32_t num_longer = batch.num_tokens - even_share * batch.num_reqs;
  int32_t first_token = 0;
  for (int32_t row = 0; row < shape.num_reqs; ++row) {
    const int32_t share = row < batch.num_reqs ? even_share + (row < num_longer ? 1 : 0) : 0;
    const int32_t query_len = std::min(share, longest);
    host(layout_.query_start_loc)[row] = first_token;
    host(layout_.seq_lens)[row] = query_len;
    first_token += query_len;
  }
  num_real_reqs_ = batch.num_reqs;
  // The batch consists of padding values. Only its sizes and sequence lengths matter.
  pad_tokens(0, shape.num_tokens);
  host(layout_.query_start_loc)[shape.num_reqs] = first_token;
  std::fill_n(host(layout_.state_indices), shape.num_reqs * limits_.state_slots_per_req, kNoState);
  for (int32_t row = 0; row < shape.num_reqs; ++row) stage_table_row(row, {});
  for (int32_t row = 0; row < shape.num_reqs; ++row) stage_encoder_text(row, 1, {});
  std::fill_n(host(layout_.logits_indices), shape.num_logits_rows, 0);
  host(layout_.num_logits)[0] = batch.num_logits_rows;
  upload(stream);
}

void InputBatch::upload(device::Stream& stream) {
  stream.copy_from_host(device_buffer_.data(), host_.data(), layout_.total * sizeof(int32_t));
  upload_table(stream);
}

void InputBatch::upload_table(device::Stream& stream) {
  const auto num_reqs = to_size(shape_.num_reqs);
  if (is_host_accessible_) {
    // On this device a copy costs no more than its bytes, so each row is copied alone.
    for (size_t row = 0; row < num_reqs; ++row) upload_table(stream, changes_of(row));
  } else {
    size_t widest_gap = kGapPerCopy;
    size_t num_ranges = find_changed_ranges(widest_gap);
    while (num_ranges > kMostTableCopies) num_ranges = find_changed_ranges(widest_gap *= 2);
    for (size_t i = 0; i < num_ranges; ++i) upload_table(stream, changed_ranges_[i]);
  }
  for (TableRow& row : std::span(table_rows_).first(num_reqs))
    row.first_changed = row.end_changed = 0;
}

void InputBatch::upload_table(device::Stream& stream, const Range& range) {
  if (range.begin == range.end) return;
  auto* table = static_cast<int32_t*>(device_buffer_.data()) + block_table_;
  stream.copy_from_host(table + range.begin,
                        host(block_table_) + range.begin,
                        (range.end - range.begin) * sizeof(int32_t));
}

InputBatch::Range InputBatch::changes_of(size_t row) const noexcept {
  const size_t first = row * to_size(limits_.max_blocks_per_req);
  return {.begin = first + to_size(table_rows_[row].first_changed),
          .end = first + to_size(table_rows_[row].end_changed)};
}

/// Joins changes with gaps of up to `widest_gap` elements into one range. Stops when there are more
/// ranges than may be copied.
size_t InputBatch::find_changed_ranges(size_t widest_gap) {
  size_t num_ranges = 0;
  for (size_t row = 0; row < to_size(shape_.num_reqs); ++row) {
    const Range range = changes_of(row);
    if (range.begin == range.end) continue;
    if (num_ranges > 0 && range.begin - changed_ranges_[num_ranges - 1].end <= widest_gap) {
      changed_ranges_[num_ranges - 1].end = range.end;
    } else if (num_ranges == changed_ranges_.size()) {
      break;
    } else {
      changed_ranges_[num_ranges++] = range;
    }
  }
  return num_ranges;
}

std::span<const int32_t> InputBatch::host_state_slots(int32_t request) const noexcept {
  const int32_t* starts = host_.data() + layout_.query_start_loc + request;
  const int32_t num_tokens = starts[1] - starts[0];
  const int32_t slots_per_req = limits_.state_slots_per_req;
  const int32_t* slots = host_.data() + layout_.state_indices + int64_t{request} * slots_per_req;
  const bool is_one = slots_per_req > 1 && slots[0] == slots[1];
  return {slots, to_size(is_one ? 1 : std::min(num_tokens, slots_per_req))};
}

Tensor InputBatch::view(size_t offset, Shape shape) const {
  return Tensor::borrow(
      {DType::i32, shape}, static_cast<int32_t*>(device_buffer_.data()) + offset, *executor_);
}

Tensor InputBatch::input_ids() const { return view(layout_.input_ids, {shape_.num_tokens}); }
Tensor InputBatch::positions() const { return view(layout_.positions, {shape_.num_tokens}); }
Tensor InputBatch::logits_indices() const {
  return view(layout_.logits_indices, {shape_.num_logits_rows});
}
Tensor InputBatch::num_logits() const { return view(layout_.num_logits, {1}); }

attention::AttentionMetadata InputBatch::attention_metadata() const {
  return {.query_start_loc = view(layout_.query_start_loc, {shape_.num_reqs + 1}),
          .seq_lens = view(layout_.seq_lens, {shape_.num_reqs}),
          .block_table = view(block_table_, {shape_.num_reqs, limits_.max_blocks_per_req}),
          .slot_mapping = view(layout_.slot_mapping, {shape_.num_tokens}),
          .state_indices =
              limits_.state_slots_per_req > 0
                  ? view(layout_.state_indices, {shape_.num_reqs, limits_.state_slots_per_req})
                  : Tensor{},
          .encoder_lens =
              limits_.has_encoder ? view(layout_.encoder_lens, {shape_.num_reqs}) : Tensor{},
          .encoder_block_table =
              limits_.has_encoder
                  ? view(layout_.encoder_block_table, {shape_.num_reqs, limits_.max_blocks_per_req})
                  : Tensor{},
          .host_query_start_loc =
              std::span(host_).subspan(layout_.query_start_loc, to_size(num_real_reqs_) + 1),
          .host_seq_lens = std::span(host_).subspan(layout_.seq_lens, to_size(num_real_reqs_))};
}

}  // namespace reprise::runner
