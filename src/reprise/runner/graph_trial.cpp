#include "reprise/runner/graph_trial.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "reprise/runner/model_runner.h"

namespace reprise::runner {
namespace {

using cudagraph::BatchDescriptor;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::GraphRule;
using cudagraph::Violation;

// NaN in every float type, and -1 as an index.
constexpr std::byte kPoison{0xFF};
// Enough tokens to fill whole vectors of every instruction set and the blocks of every kernel.
constexpr int32_t kMostTokens = 64;
// Many kernels treat one request specially, and often also two.
constexpr int32_t kMostPrompts = 3;
// No request has this state slot, so nothing may write to it.
constexpr size_t kUnusedSlot = 1;

Violation violation(GraphRule rule, std::string problem) {
  return {.rule = rule,
          .node = std::nullopt,
          .kernel = {},
          .place = {},
          .buffer = {},
          .problem = std::move(problem)};
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

size_t to_size(int64_t value) { return static_cast<size_t>(value); }

}  // namespace

GraphTrial::GraphTrial(ModelRunner& runner, ExpertCounts* counts)
    : runner_(&runner),
      counts_(counts),
      blocks_{.tensors = runner.kv_cache().tensors(),
              .count = to_size(runner.kv_cache().layout().num_blocks)},
      slots_{.tensors = runner.states().tensors(),
             .count = to_size(runner.states().layout().num_slots)} {
  if (counts_ == nullptr) return;
  runner.execution().stream().synchronize();  // a warm-up may still count
  counts_before_ = counts_->save();
}

GraphTrial::~GraphTrial() {
  if (counts_ != nullptr) counts_->restore(counts_before_);
}

void GraphTrial::fill(const Parts& parts, size_t first, size_t count, std::byte value) {
  device::Stream& stream = runner_->execution().stream();
  for (const Tensor& tensor : parts.tensors) {
    const size_t bytes = tensor.type().bytes() / to_size(tensor.size(0));
    stream.fill(static_cast<std::byte*>(tensor.data()) + first * bytes, value, count * bytes);
  }
}

bool GraphTrial::holds_only(const Parts& parts, size_t first, size_t count, std::byte value) {
  device::Stream& stream = runner_->execution().stream();
  for (const Tensor& tensor : parts.tensors) {
    const size_t bytes = tensor.type().bytes() / to_size(tensor.size(0));
    host_.resize(bytes);
    for (size_t i = first; i < first + count; ++i) {
      stream.copy_to_host(
          host_.data(), static_cast<const std::byte*>(tensor.data()) + i * bytes, bytes);
      if (!std::ranges::all_of(host_, [&](std::byte byte) { return byte == value; })) return false;
    }
  }
  return true;
}

void GraphTrial::try_keys(cudagraph::CudagraphDispatcher& dispatcher,
                          cudagraph::CaptureReport& report) {
  using Clock = std::chrono::steady_clock;
  if (const auto trace = find_trace()) report.violation = describe(*trace);
  for (cudagraph::CaptureRecord& record : report.records) {
    if (!record.failure.empty()) continue;
    const Clock::time_point begin = Clock::now();
    const std::optional<Violation> found = try_key(record.mode, record.descriptor);
    record.verify_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    if (!found) continue;
    record.verdict = cudagraph::CaptureVerdict::violated;
    record.rule = to_string(found->rule);
    record.failure = describe(*found);
    dispatcher.retire(record.mode, record.descriptor, record.failure);
  }
}

std::optional<Violation> GraphTrial::find_trace() {
  const bool has_null_block = holds_only(blocks_, 0, 1, std::byte{0});
  const bool has_states = holds_only(slots_, 0, slots_.count, std::byte{0});
  if (has_null_block && has_states) return std::nullopt;
  if (!has_null_block) fill(blocks_, 0, 1, std::byte{0});
  if (!has_states) fill(slots_, 0, slots_.count, std::byte{0});
  return violation(GraphRule::leaves_no_trace,
                   has_states ? "warm-up or a capture has written the null block of the cache"
                              : "warm-up or a capture has written a state");
}

void GraphTrial::add_request(int32_t num_tokens, int32_t num_drafts) {
  const BatchLimits& limits = runner_->input_batch().limits();
  // Then the text ends at the end of its block, and a read beyond it reads the null block.
  const int32_t context = limits.block_size - num_tokens % limits.block_size;
  const auto index = static_cast<int32_t>(requests_.entries().size());
  kv_cache::StateSlot state_slot = kv_cache::kNullStateSlot;
  if (!slots_.empty()) {
    state_slot = kv_cache::StateSlot{static_cast<int32_t>(kUnusedSlot) +
                                     (1 + index) * limits.state_slots_per_req};
  }
  requests_.add({.num_tokens = num_tokens,
                 .context = context,
                 .num_drafts = num_drafts,
                 .state_slot = state_slot},
                limits.block_size);
}

bool GraphTrial::make_requests(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor) {
  const BatchLimits& limits = runner_->input_batch().limits();
  const int32_t most_reqs = mode == CudagraphRuntimeMode::FULL
                                ? descriptor.num_reqs.value_or(1)
                                : std::min(descriptor.num_tokens, limits.max_num_reqs);
  int32_t num_reqs = std::max(1, std::min(most_reqs / 2, kMostPrompts));
  int32_t num_tokens = std::clamp(descriptor.num_tokens / 2 / num_reqs, 1, kMostTokens);
  int32_t num_drafts = 0;
  if (descriptor.uniform) {
    num_tokens = descriptor.num_tokens / most_reqs;
    num_drafts = std::min(num_tokens, limits.max_sampled_rows_per_req) - 1;
    num_reqs = std::max(1, most_reqs / 2);
  }
  const int32_t blocks_per_req = num_tokens / limits.block_size + 1;
  if (blocks_per_req > limits.max_blocks_per_req) return false;
  // Leaves one block that no request has.
  num_reqs = std::min(num_reqs, (static_cast<int32_t>(blocks_.count) - 2) / blocks_per_req);
  if (!slots_.empty()) {
    const auto num_slots = static_cast<int32_t>(slots_.count - kUnusedSlot);
    num_reqs = std::min(num_reqs, num_slots / limits.state_slots_per_req - 1);
  }
  if (num_reqs < 1) return false;
  requests_.begin(to_size(num_reqs) * to_size(num_tokens),
                  to_size(num_reqs) * to_size(blocks_per_req));
  for (int32_t i = 0; i < num_reqs; ++i) add_request(num_tokens, num_drafts);
  return true;
}

void GraphTrial::clean() {
  fill(blocks_, 0, std::min(requests_.next_block() + 1, blocks_.count), std::byte{0});
  fill(slots_, 0, slots_.count, std::byte{0});
}

GraphTrial::Bits GraphTrial::run(CudagraphRuntimeMode mode,
                                 const BatchDescriptor& descriptor,
                                 CudagraphRuntimeMode run_as,
                                 std::byte null_value) {
  clean();
  fill(blocks_, 0, 1, null_value);
  fill(slots_, 0, std::min<size_t>(slots_.count, 1), null_value);
  const StepResult& result =
      runner_->run(requests_.entries(), {.mode = mode, .descriptor = descriptor}, run_as);
  Bits bits;
  for (int32_t row = 0; row < result.num_logits; ++row) {
    const std::span<const float> logits = runner_->logits_row(result, row);
    bits.insert(bits.end(), logits.begin(), logits.end());
  }
  return bits;
}

std::optional<Violation> GraphTrial::try_key(CudagraphRuntimeMode mode,
                                             const BatchDescriptor& descriptor) {
  if (!make_requests(mode, descriptor)) return std::nullopt;
  const size_t num_unused_slots =
      slots_.empty() ? 0 : to_size(runner_->input_batch().limits().state_slots_per_req);
  const auto find = [&]() -> std::optional<Violation> {
    const Bits eager = run(mode, descriptor, CudagraphRuntimeMode::NONE, std::byte{0});
    if (!same_bits(run(mode, descriptor, mode, std::byte{0}), eager)) {
      return violation(GraphRule::replays_as_eager,
                       "a replay over made-up requests gives other logits than the eager run");
    }
    if (!same_bits(run(mode, descriptor, mode, kPoison), eager)) {
      return violation(GraphRule::ignores_padding,
                       "NaN in the null block or the null slot changes the logits of requests");
    }
    if (!holds_only(blocks_, 0, 1, kPoison) ||
        !holds_only(slots_, 0, std::min<size_t>(slots_.count, 1), kPoison)) {
      return violation(GraphRule::writes_own_memory,
                       "a replay has written the null block or the null slot");
    }
    if (!holds_only(blocks_, requests_.next_block(), 1, std::byte{0}) ||
        !holds_only(slots_, kUnusedSlot, num_unused_slots, std::byte{0})) {
      return violation(GraphRule::writes_own_memory,
                       "a replay has written a block or a state of no request");
    }
    return std::nullopt;
  };
  std::optional<Violation> found = find();
  clean();
  return found;
}

}  // namespace reprise::runner
