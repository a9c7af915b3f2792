#include "reprise/kernels/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/attention/attention_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/sparse_attention/sparse_attention.h"
#include "reprise/tensor/attention_segments.h"

namespace reprise::kernels {
namespace {

// The first aim is a number of blocks that is sufficient for many cores. The second aim is many
// tokens per block, because the tokens of a block share the loads of keys and values.
constexpr int64_t kWantedBlocks = 128;
// The number of equal shares of the work in a launch that divides contexts. Most numbers of workers
// divide this number without a remainder.
constexpr int64_t kSplitGrid = 5040;
// Heads that share their keys and values are divided into groups of at least this size. Each group
// reads the cache separately; if there was only one group, one thread would compute a whole
// request.
constexpr int64_t kFewestSharingHeads = 8;

// Returns the largest number of groups of equal size that this minimum allows.
int64_t num_groups_of_sharing_heads(int64_t heads) {
  for (int64_t groups = heads / kFewestSharingHeads; groups > 1; --groups) {
    if (heads % groups == 0) return groups;
  }
  return 1;
}

int64_t tokens_per_block(int64_t num_tokens, int64_t kv_heads, int64_t group_size) {
  const int64_t most = std::max<int64_t>(1, kMostAttentionRows / group_size);
  return std::clamp<int64_t>(num_tokens * kv_heads / kWantedBlocks, 1, most);
}

AttentionOut out_type(const AttentionCall& call) {
  if (call.out_scale == nullptr) return AttentionOut::like_q;
  return call.out.dtype() == DType::i8 ? AttentionOut::i8 : AttentionOut::f8e4m3;
}

void require_supported(const AttentionCall& call) {
  if (call.out.size(2) > kMaxAttentionHeadDim) {
    throw InvalidArgument(
        fmt::format("attention: head_dim {} is more than the {} that the CPU kernels support",
                    call.out.size(2),
                    kMaxAttentionHeadDim));
  }
  if (call.q.size(2) > kMaxAttentionKeyDim) {
    throw InvalidArgument(fmt::format(
        "attention: keys of {} elements are more than the {} that the CPU kernels support",
        call.q.size(2),
        kMaxAttentionKeyDim));
  }
  require_dense_rows(call.q, "attention");
  require_dense_rows(call.out, "attention");
  require_dense_rows(call.block_table, "attention");
  REPRISE_ASSERT(call.key_cache.is_dense() && call.value_cache.is_dense() &&
                     call.query_start_loc.is_dense() && call.seq_lens.is_dense() &&
                     (call.sinks == nullptr || call.sinks->is_dense()) &&
                     (call.biases == nullptr || call.biases->is_dense()),
                 "attention: caches, lengths, sinks and biases must be dense");
}

AttentionKernelArguments arguments_of(const AttentionCall& call) {
  const int64_t cache_heads = call.key_cache.size(1);
  const bool is_latent = call.key_cache.data() == call.value_cache.data();
  const int64_t kv_heads = is_latent ? num_groups_of_sharing_heads(call.q.size(1)) : cache_heads;
  return {
      .q = call.q.data(),
      .key_cache = call.key_cache.data(),
      .value_cache = call.value_cache.data(),
      .out = call.out.data(),
      .sinks = call.sinks == nullptr ? nullptr : call.sinks->data(),
      .biases = call.biases == nullptr ? nullptr : call.biases->data_as<float>(),
      .num_biases = call.biases == nullptr ? 0 : call.biases->size(1),
      .out_scale = call.out_scale == nullptr ? nullptr : call.out_scale->data_as<float>(),
      .query_start_loc = call.query_start_loc.data_as<int32_t>(),
      .seq_lens = call.seq_lens.data_as<int32_t>(),
      .block_table = call.block_table.data_as<int32_t>(),
      .q_token_stride = call.q.stride(0),
      .q_head_stride = call.q.stride(1),
      .out_token_stride = call.out.stride(0),
      .out_head_stride = call.out.stride(1),
      .block_table_stride = call.block_table.stride(0),
      .num_tokens = call.q.size(0),
      .num_reqs = call.seq_lens.size(0),
      .block_stride = call.key_cache.stride(0),
      .kv_head_stride = is_latent ? 0 : call.key_cache.stride(1),
      .kv_heads = kv_heads,
      .group_size = call.q.size(1) / kv_heads,
      .head_dim = call.q.size(2),
      .value_dim = call.out.size(2),
      .block_size = call.key_cache.size(2),
      .sliding_window = call.sliding_window,
      .chunk_size = call.chunk_size,
      .tokens_per_block = 1,
      .query_len = 1,
      .scale = call.scale,
      .soft_cap = call.soft_cap,
      .is_bidirectional = call.is_bidirectional ? 1 : 0,
      .out_type = out_type(call),
      .cache = cache_rows(call.key_cache, call.q.dtype(), call.q.size(2), call.scales),
  };
}

// The first entry is the buffer that attention writes.
std::array<device::BufferUse, 10> uses_of(const AttentionCall& call) {
  return {writes(call.out),
          reads(call.q),
          reads(call.key_cache),
          reads(call.value_cache),
          reads(call.query_start_loc),
          reads(call.seq_lens),
          reads(call.block_table),
          reads(call.out_scale == nullptr ? Tensor() : *call.out_scale),
          reads(call.sinks == nullptr ? Tensor() : *call.sinks),
          reads(call.biases == nullptr ? Tensor() : *call.biases)};
}

bool has_shared_prefix(const AttentionCall& call) {
  return call.path != nullptr && call.path->shared_prefix_len > 0 && call.sliding_window == 0 &&
         call.chunk_size == 0 && !call.is_bidirectional && call.q.size(0) > 0;
}

/// The memory that attention reads and writes, and the states after the shared prefix.
std::array<device::BufferUse, 11> uses_with_prefix(const AttentionCall& call) {
  std::array<device::BufferUse, 11> uses;
  std::ranges::copy(uses_of(call), uses.begin());
  uses.back() = reads(has_shared_prefix(call) ? call.path->prefix_states : Tensor());
  return uses;
}

/// If the path has a shared prefix, launches the attention over this prefix for all tokens, and
/// makes `arguments` continue after the prefix.
void launch_shared_prefix(device::Stream& stream,
                          const KernelTable& kernels,
                          const AttentionCall& call,
                          AttentionKernelArguments& arguments) {
  if (!has_shared_prefix(call)) return;
  const AttentionPath& path = *call.path;
  const int64_t num_values = arguments.num_tokens * call.q.size(1) * 2 * (arguments.value_dim + 2);
  REPRISE_ASSERT(path.prefix_states.num_elements() >= num_values,
                 "attention: the states of a prefix have {} values, but the memory for them has {}",
                 num_values,
                 path.prefix_states.num_elements());
  const SharedPrefixArguments prefix = {
      .call = arguments,
      .states = path.prefix_states.data_as<float>(),
      .prefix_len = path.shared_prefix_len,
      .tokens_per_block =
          std::clamp<int64_t>(path.tokens_per_prefix_block,
                              1,
                              std::max<int64_t>(1, kMaxAttentionRows / arguments.group_size))};
  const int64_t blocks =
      ceil_div(arguments.num_tokens, prefix.tokens_per_block) * arguments.kv_heads;
  const std::array<device::BufferUse, 7> uses = {
      writes(path.prefix_states),
      reads(call.q),
      reads(call.key_cache),
      reads(call.value_cache),
      reads(call.query_start_loc),
      reads(call.block_table),
      reads(call.biases == nullptr ? Tensor() : *call.biases)};
  (void)launch(stream,
               kernel_for(kernels.shared_prefix, call.q.dtype()),
               static_cast<uint32_t>(blocks),
               prefix,
               uses);
  arguments.shared_prefix_len = prefix.prefix_len;
  arguments.prefix_states = prefix.states;
}

/// Whether contexts may have several segments and the path has memory for the sums of segments.
bool can_be_split(const AttentionCall& call) {
  return call.path != nullptr && call.path->segment_sums.defined() && !has_shared_prefix(call) &&
         call.q.size(0) > 0 &&
         call.block_table.size(1) * call.key_cache.size(2) > kAttentionSegment;
}

/// Launches jobs of `tokens_per_job` tokens whose long contexts are divided among blocks.
bool launch_split(device::Stream& stream,
                  const KernelTable& kernels,
                  const AttentionCall& call,
                  int64_t tokens_per_job) {
  const Tensor& sums = call.path->segment_sums;
  const Tensor& counters = call.path->segment_counters;
  const AttentionKernelArguments arguments = arguments_of(call);
  const int64_t part_size = tokens_per_job * call.q.size(1) * (arguments.value_dim + 2);
  const SplitAttentionArguments split = {
      .call = arguments,
      .sums = sums.data_as<float>(),
      .counters = counters.data_as<int32_t>(),
      .most_parts =
          std::min(sums.num_elements() / part_size, counters.num_elements() / arguments.kv_heads),
      .tokens_per_job = tokens_per_job,
      .grid_size = kSplitGrid};
  std::array<device::BufferUse, 12> uses;
  std::ranges::copy(uses_of(call), uses.begin());
  uses[10] = writes(sums);
  uses[11] = writes(counters);
  uses[11].access = device::BufferUse::Access::read_write;
  return launch(
      stream, kernel_for(kernels.split_attention, call.q.dtype()), kSplitGrid, split, uses);
}

bool launch_any_batch(device::Stream& stream,
                      const KernelTable& kernels,
                      const AttentionCall& call) {
  AttentionKernelArguments arguments = arguments_of(call);
  launch_shared_prefix(stream, kernels, call, arguments);
  arguments.tokens_per_block =
      tokens_per_block(arguments.num_tokens, arguments.kv_heads, arguments.group_size);
  const bool has_few_rows = arguments.num_tokens * arguments.kv_heads < 2 * kWantedBlocks;
  if (has_few_rows && can_be_split(call)) {
    return launch_split(stream, kernels, call, 1);
  }
  const int64_t blocks =
      ceil_div(arguments.num_tokens, arguments.tokens_per_block) * arguments.kv_heads;
  return launch(stream,
                kernel_for(kernels.attention, call.q.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                uses_with_prefix(call));
}

bool launch_uniform(device::Stream& stream, const KernelTable& kernels, const AttentionCall& call) {
  if (can_be_split(call)) return launch_split(stream, kernels, call, call.path->query_len);
  AttentionKernelArguments arguments = arguments_of(call);
  launch_shared_prefix(stream, kernels, call, arguments);
  arguments.query_len = call.path->query_len;
  const int64_t blocks =
      arguments.num_tokens == 0 ? 0 : std::max<int64_t>(1, arguments.num_reqs) * arguments.kv_heads;
  return launch(stream,
                kernel_for(kernels.uniform_attention, call.q.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                uses_with_prefix(call));
}

bool launch_planned(device::Stream& stream, const KernelTable& kernels, const AttentionCall& call) {
  const Tensor& plan = call.path->plan;
  const Tensor& partials = call.path->partials;
  const PlannedAttentionArguments arguments = {.call = arguments_of(call),
                                               .plan = plan.data_as<int32_t>(),
                                               .partials = partials.data_as<float>(),
                                               .grid_size = kWantedBlocks};
  if (arguments.call.num_tokens == 0) return false;
  constexpr size_t kPlan = 10;
  constexpr size_t kPartials = 11;
  std::array<device::BufferUse, 12> uses;
  std::ranges::copy(uses_of(call), uses.begin());
  uses[kPlan] = reads(plan);
  uses[kPartials] = writes(partials);
  (void)launch(stream,
               kernel_for(kernels.planned_attention, call.q.dtype()),
               kWantedBlocks,
               arguments,
               uses);
  // The second launch writes the rows of requests with parts and keeps the other rows.
  uses[0].access = device::BufferUse::Access::read_write;
  uses[kPartials] = reads(partials);
  return launch(
      stream, kernel_for(kernels.merge_attention, call.q.dtype()), kWantedBlocks, arguments, uses);
}

}  // namespace

bool launch_attention(device::Stream& stream,
                      const KernelTable& kernels,
                      const AttentionCall& call) {
  require_supported(call);
  switch (call.path == nullptr ? AttentionPath::Kind::any_batch : call.path->kind) {
    case AttentionPath::Kind::any_batch:
      return launch_any_batch(stream, kernels, call);
    case AttentionPath::Kind::uniform:
      return launch_uniform(stream, kernels, call);
    case AttentionPath::Kind::planned:
      return launch_planned(stream, kernels, call);
  }
  return false;
}

namespace {

template <OpCode kOp>
AttentionCall key_value_call(const OpRun& run) {
  const auto in = run.operands<kOp>();
  return {.q = in["q"],
          .key_cache = in["key_cache"],
          .value_cache = in["value_cache"],
          .query_start_loc = in["query_start_loc"],
          .seq_lens = in["seq_lens"],
          .block_table = in["block_table"],
          .out = in["out"],
          .scale = run.call.attributes.scale,
          .sliding_window = run.call.attributes.sliding_window,
          .chunk_size = run.call.attributes.chunk_size,
          .soft_cap = run.call.attributes.soft_cap,
          .path = &run.attention,
          .scales = {.k = run.call.attributes.k_scale, .v = run.call.attributes.v_scale}};
}

AttentionCall latent_call(const OpRun& run) {
  const auto in = run.operands<OpCode::mla_attention>();
  return {.q = in["q"],
          .key_cache = in["kv_cache"],
          .value_cache = in["kv_cache"],
          .query_start_loc = in["query_start_loc"],
          .seq_lens = in["seq_lens"],
          .block_table = in["block_table"],
          .out = in["out"],
          .scale = run.call.attributes.scale,
          .path = &run.attention};
}

}  // namespace

AttentionCall attention_call_of(const OpRun& run) {
  switch (run.call.code) {
    case OpCode::mla_attention:
      return latent_call(run);
    case OpCode::attention_with_sinks: {
      AttentionCall call = key_value_call<OpCode::attention_with_sinks>(run);
      call.sinks = &run.operands<OpCode::attention_with_sinks>()["sinks"];
      return call;
    }
    case OpCode::attention_with_biases: {
      AttentionCall call = key_value_call<OpCode::attention_with_biases>(run);
      call.biases = &run.operands<OpCode::attention_with_biases>()["biases"];
      return call;
    }
    case OpCode::encoder_attention: {
      AttentionCall call = key_value_call<OpCode::encoder_attention>(run);
      call.is_bidirectional = true;
      return call;
    }
    case OpCode::attention_quant: {
      AttentionCall call = key_value_call<OpCode::attention_quant>(run);
      call.out_scale = &run.operands<OpCode::attention_quant>()["scale"];
      return call;
    }
    default:
      return key_value_call<OpCode::attention>(run);
  }
}

bool launch_attention(const OpRun& run) {
  return launch_attention(run.stream, run.kernels, attention_call_of(run));
}
bool launch_mla_attention(const OpRun& run) {
  const auto in = run.operands<OpCode::mla_attention>();
  if (!in["index_q"].defined()) return launch_attention(run);
  return launch_sparse_attention(run.stream,
                                 run.kernels,
                                 {.q = in["q"],
                                  .kv_cache = in["kv_cache"],
                                  .index_q = in["index_q"],
                                  .index_weights = in["index_weights"],
                                  .query_start_loc = in["query_start_loc"],
                                  .seq_lens = in["seq_lens"],
                                  .block_table = in["block_table"],
                                  .out = in["out"],
                                  .scale = run.call.attributes.scale,
                                  .top_k = run.call.attributes.length});
}
bool launch_attention_with_sinks(const OpRun& run) { return launch_attention(run); }
bool launch_attention_with_biases(const OpRun& run) { return launch_attention(run); }
bool launch_encoder_attention(const OpRun& run) { return launch_attention(run); }
bool launch_attention_quant(const OpRun& run) { return launch_attention(run); }

}  // namespace reprise::kernels
