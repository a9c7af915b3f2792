#include "reprise/attention/cascade_attention.h"

#include <algorithm>

namespace reprise::attention {
namespace {

/// The number of positions that attention takes at once, in every kernel.
constexpr int32_t kChunk = 32;
/// The largest number of query rows that a kernel takes at once.
constexpr int64_t kMostRows = 32;
/// Loading the keys and values of a chunk costs as much as this many query rows: 3 with AVX-512, 8
/// with AMX, measured with kernels of 1 to 32 rows (docs/adr/0051). The smaller number makes the
/// rule choose cascade attention less often.
constexpr int64_t kRowsPerLoad = 3;
/// Writing and reading the states of a row once costs as much as this many chunks of one row.
constexpr int64_t kChunksPerState = 2;
/// A row has two states: one for the complete segments of a prefix, and one for the segment in
/// which the prefix ends.
constexpr int64_t kStatesPerRow = 2;

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The work of the busiest worker for one chunk, if loads are shared by groups of `rows` query rows
/// and there are `units` such groups.
int64_t time_of(const CascadeShape& shape, int64_t units, int64_t rows) {
  return ceil_divide(units * shape.num_kv_heads, shape.num_workers) * (kRowsPerLoad + rows);
}

}  // namespace

int32_t cascade_prefix_len(const cudagraph::BatchFacts& batch) noexcept {
  return batch.common_prefix_len / kChunk * kChunk;
}

int32_t choose_cascade(const CascadeShape& shape, const cudagraph::BatchFacts& batch) noexcept {
  const int64_t chunks = cascade_prefix_len(batch) / kChunk;
  if (chunks * kChunk < kShortestCascadePrefix || batch.num_reqs < kFewestCascadeReqs ||
      batch.num_tokens > kMostCascadeTokens || shape.group_size > kMostRows / 2) {
    return 0;
  }
  const int64_t rows_per_req = ceil_divide(batch.num_tokens, batch.num_reqs) * shape.group_size;
  const int64_t units_per_req = ceil_divide(rows_per_req, kMostRows);
  const int64_t plain =
      chunks * time_of(shape, batch.num_reqs * units_per_req, std::min(rows_per_req, kMostRows));
  const int64_t states = kChunksPerState *
                         ceil_divide(batch.num_tokens * shape.num_kv_heads, shape.num_workers) *
                         shape.group_size;
  int32_t best = 0;
  // Cascade attention must save more than a tenth: it costs a second launch, and the step cannot
  // run as one FULL graph.
  int64_t least = plain - plain / 10;
  const auto most = static_cast<int32_t>(kMostRows / shape.group_size);
  for (int32_t tokens = 1; tokens <= most; ++tokens) {
    const int64_t units = ceil_divide(batch.num_tokens, tokens);
    const int64_t cascade = chunks * time_of(shape, units, tokens * shape.group_size) + states;
    if (cascade < least) {
      least = cascade;
      best = tokens;
    }
  }
  return best;
}

std::unique_ptr<CascadeAttention> CascadeAttention::create(std::span<AttentionLayer* const> layers,
                                                           int32_t max_num_tokens,
                                                           int32_t max_num_reqs,
                                                           int num_workers,
                                                           device::Device& device,
                                                           OpExecutor& executor) {
  if (layers.empty() || num_workers < 1 || max_num_reqs < kFewestCascadeReqs) return nullptr;
  int64_t values = 0;
  for (const AttentionLayer* layer : layers) {
    const AttentionShape& shape = layer->shape();
    const bool has_states = shape.num_heads == 0;
    if (has_states || shape.sliding_window > 0 || shape.chunk_size > 0 || shape.is_bidirectional)
      return nullptr;
    values = std::max(values, shape.num_heads * kStatesPerRow * (shape.value_dim + 2));
  }
  const AttentionShape& shape = layers.front()->shape();
  return std::make_unique<CascadeAttention>(
      CascadeShape{.num_kv_heads = shape.num_kv_heads,
                   .group_size = shape.num_heads / shape.num_kv_heads,
                   .num_workers = num_workers},
      std::min(max_num_tokens, kMostCascadeTokens),
      values,
      device,
      executor);
}

CascadeAttention::CascadeAttention(const CascadeShape& shape,
                                   int32_t max_num_tokens,
                                   int64_t values_per_token,
                                   device::Device& device,
                                   OpExecutor& executor)
    : shape_(shape),
      max_num_tokens_(max_num_tokens),
      buffer_(
          device.allocate(static_cast<size_t>(max_num_tokens * values_per_token) * sizeof(float))),
      states_(Tensor::borrow(
          {DType::f32, {max_num_tokens * values_per_token}}, buffer_.data(), executor)) {}

void CascadeAttention::add_to(AttentionPath& path,
                              const cudagraph::BatchFacts& batch,
                              int32_t num_staged_tokens) const {
  if (path.kind == AttentionPath::Kind::planned || num_staged_tokens > max_num_tokens_) return;
  path.shared_prefix_len = cascade_prefix_len(batch);
  path.tokens_per_prefix_block = choose_cascade(shape_, batch);
  path.prefix_states = states_;
}

}  // namespace reprise::attention
