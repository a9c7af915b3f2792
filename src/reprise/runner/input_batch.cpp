#include "reprise/runner/input_batch.h"

#include <algorithm>

namespace reprise::engine {
namespace {

// Each array starts at a multiple of a cache line (64 bytes).
constexpr size_t kAlignment = 64 / sizeof(int32_t);
constexpr int32_t kNoSlot = -1;

size_t to_size(int32_t value) { return static_cast<size_t>(value); }

}  // namespace

InputBatch::Layout InputBatch::make_layout(const BatchLimits& limits) {
  Layout layout;
  size_t next = 0;
  const auto place = [&next](size_t& offset, size_t count) {
    offset = next;
    next = (next + count + kAlignment - 1) / kAlignment * kAlignment;
  };
  place(layout.input_ids, to_size(limits.max_num_tokens));
  place(layout.positions, to_size(limits.max_num_tokens));
  place(layout.slot_mapping, to_size(limits.max_num_tokens));
  place(layout.query_start_loc, to_size(limits.max_num_reqs) + 1);
  place(layout.seq_lens, to_size(limits.max_num_reqs));
  place(layout.logits_indices, to_size(limits.max_num_logits()));
  place(layout.num_logits, 1);
  // The block table comes last, so that an upload can stop after its used rows.
  place(layout.block_table, to_size(limits.max_num_reqs) * to_size(limits.max_blocks_per_req));
  layout.total = next;
  return layout;
}

InputBatch::InputBatch(const BatchLimits& limits, device::Device& device, OpExecutor& executor)
    : limits_(limits),
      layout_(make_layout(limits)),
      executor_(&executor),
      is_host_accessible_(device.is_host_accessible()),
      device_buffer_(device.allocate(layout_.total * sizeof(int32_t))),
      host_(layout_.total),
      table_rows_(to_size(limits.max_num_reqs)) {}

void InputBatch::stage(std::span<const BatchRequest> requests,
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
  shape_ = shape;
  int32_t num_tokens = 0;
  int32_t num_logits = 0;
  int32_t index = 0;
  for (const BatchRequest& request : requests) {
    num_tokens += stage_request(request, index++, num_tokens);
    num_logits = stage_logits_indices(request, num_tokens, num_logits);
  }
  num_real_reqs_ = index;
  pad(index, num_tokens, num_logits);
  upload(stream);
}

int32_t InputBatch::stage_logits_indices(const BatchRequest& request,
                                         int32_t end_token,
                                         int32_t num_logits) {
  REPRISE_ASSERT(num_logits + request.num_logits() <= shape_.num_logits_rows,
                 "more logits than the {} rows staged",
                 shape_.num_logits_rows);
  int32_t* indices = host(layout_.logits_indices);
  const int32_t first_token = end_token - static_cast<int32_t>(request.token_ids.size());
  for (int32_t i = 0; i < request.num_prompt_logits; ++i) {
    indices[num_logits++] = first_token + request.first_prompt_logit + i;
  }
  if (request.samples) indices[num_logits++] = end_token - 1;
  return num_logits;
}

int32_t InputBatch::stage_request(const BatchRequest& request, int32_t index, int32_t first_token) {
  const auto query_len = static_cast<int32_t>(request.token_ids.size());
  const int32_t seq_len = request.num_computed_tokens + query_len;
  REPRISE_ASSERT(first_token + query_len <= shape_.num_tokens &&
                     request.block_ids.size() <= to_size(limits_.max_blocks_per_req) &&
                     request.block_ids.size() * to_size(limits_.block_size) >= to_size(seq_len),
                 "request {}: {} tokens at {} with {} blocks do not fit {} staged tokens",
                 index,
                 query_len,
                 first_token,
                 request.block_ids.size(),
                 shape_.num_tokens);
  std::copy(
      request.token_ids.begin(), request.token_ids.end(), host(layout_.input_ids) + first_token);
  for (int32_t i = 0; i < query_len; ++i) {
    const int32_t position = request.num_computed_tokens + i;
    const auto block =
        static_cast<int32_t>(request.block_ids[to_size(position / limits_.block_size)]);
    host(layout_.positions)[first_token + i] = position;
    host(layout_.slot_mapping)[first_token + i] =
        block * limits_.block_size + position % limits_.block_size;
  }
  host(layout_.query_start_loc)[index] = first_token;
  host(layout_.seq_lens)[index] = seq_len;
  stage_table_row(index, request.block_ids);
  return query_len;
}

void InputBatch::stage_table_row(int32_t row_index, std::span<const kv_cache::BlockId> block_ids) {
  int32_t* entries = host(layout_.block_table) + row_index * limits_.max_blocks_per_req;
  TableRow& row = table_rows_[to_size(row_index)];
  const auto count = static_cast<int32_t>(block_ids.size());
  std::transform(block_ids.begin(), block_ids.end(), entries, [](kv_cache::BlockId id) {
    return static_cast<int32_t>(id);
  });
  for (int32_t i = count; i < row.count; ++i)
    entries[i] = static_cast<int32_t>(kv_cache::kNullBlock);
  row.changed = std::max(count, row.count);
  row.count = count;
}

void InputBatch::pad(int32_t num_rows, int32_t num_tokens, int32_t num_logits) {
  const auto fill_tail = [this](size_t offset, int32_t from, int32_t to, int32_t value) {
    std::fill(host(offset) + from, host(offset) + to, value);
  };
  fill_tail(layout_.input_ids, num_tokens, shape_.num_tokens, 0);
  fill_tail(layout_.positions, num_tokens, shape_.num_tokens, 0);
  fill_tail(layout_.slot_mapping, num_tokens, shape_.num_tokens, kNoSlot);
  fill_tail(layout_.query_start_loc, num_rows, shape_.num_reqs + 1, num_tokens);
  fill_tail(layout_.seq_lens, num_rows, shape_.num_reqs, 0);
  for (int32_t row = num_rows; row < shape_.num_reqs; ++row) stage_table_row(row, {});
  fill_tail(layout_.logits_indices, num_logits, shape_.num_logits_rows, 0);
  host(layout_.num_logits)[0] = num_logits;
}

void InputBatch::stage_dummy(const StagedShape& shape, device::Stream& stream) {
  shape_ = shape;
  const int32_t longest = limits_.max_blocks_per_req * limits_.block_size;
  const int32_t even_share = shape.num_tokens / std::max(shape.num_reqs, 1);
  const int32_t num_longer = shape.num_tokens - even_share * shape.num_reqs;
  int32_t first_token = 0;
  for (int32_t row = 0; row < shape.num_reqs; ++row) {
    const int32_t query_len = std::min(even_share + (row < num_longer ? 1 : 0), longest);
    host(layout_.query_start_loc)[row] = first_token;
    host(layout_.seq_lens)[row] = query_len;
    first_token += query_len;
  }
  num_real_reqs_ = shape.num_reqs;
  // The batch consists of padding values. Only its sizes and sequence lengths matter.
  std::fill(host(layout_.input_ids), host(layout_.input_ids) + shape.num_tokens, 0);
  std::fill(host(layout_.positions), host(layout_.positions) + shape.num_tokens, 0);
  std::fill(host(layout_.slot_mapping), host(layout_.slot_mapping) + shape.num_tokens, kNoSlot);
  host(layout_.query_start_loc)[shape.num_reqs] = first_token;
  for (int32_t row = 0; row < shape.num_reqs; ++row) stage_table_row(row, {});
  std::fill_n(host(layout_.logits_indices), shape.num_logits_rows, 0);
  host(layout_.num_logits)[0] = shape.num_logits_rows;
  upload(stream);
}

void InputBatch::upload(device::Stream& stream) {
  const size_t row_length = to_size(limits_.max_blocks_per_req);
  if (!is_host_accessible_) {
    // Each copy to such a device has a fixed cost, so one copy transfers all arrays.
    const size_t used = layout_.block_table + to_size(shape_.num_reqs) * row_length;
    stream.copy_from_host(device_buffer_.data(), host_.data(), used * sizeof(int32_t));
    return;
  }
  stream.copy_from_host(device_buffer_.data(), host_.data(), layout_.block_table * sizeof(int32_t));
  auto* table = static_cast<int32_t*>(device_buffer_.data()) + layout_.block_table;
  for (size_t row = 0; row < to_size(shape_.num_reqs); ++row) {
    const auto bytes = to_size(table_rows_[row].changed) * sizeof(int32_t);
    if (bytes == 0) continue;
    stream.copy_from_host(
        table + row * row_length, host(layout_.block_table) + row * row_length, bytes);
  }
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
          .block_table = view(layout_.block_table, {shape_.num_reqs, limits_.max_blocks_per_req}),
          .slot_mapping = view(layout_.slot_mapping, {shape_.num_tokens}),
          .host_query_start_loc =
              std::span(host_).subspan(layout_.query_start_loc, to_size(num_real_reqs_) + 1),
          .host_seq_lens = std::span(host_).subspan(layout_.seq_lens, to_size(num_real_reqs_))};
}

}  // namespace reprise::engine
