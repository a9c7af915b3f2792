#include "reprise/runner/graph_verification.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "reprise/device/graph_node.h"
#include "reprise/runner/forward.h"

namespace reprise::runner {
namespace {

using cudagraph::CapturedNode;
using cudagraph::CaptureVerdict;
using cudagraph::MemoryRegion;
using cudagraph::MemoryRole;
using cudagraph::NodeUse;

/// Adds the time of its lifetime to a sum.
class SecondsScope {
 public:
  explicit SecondsScope(double& sum) noexcept : sum_(sum) {}
  SecondsScope(const SecondsScope&) = delete;
  SecondsScope& operator=(const SecondsScope&) = delete;
  ~SecondsScope() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  Clock::time_point begin_ = Clock::now();
};

// The names of the inputs from kStateIndices on depend on the model.
constexpr std::array<std::string_view, kMaxForwardInputs> kInputNames = {
    "input_ids",
    "positions",
    "slot_mapping",
    "query_start_loc",
    "seq_lens",
    "block_table",
    "logits_indices",
    "num_logits",
    "state_indices, hidden_states or encoder_lens",
    "encoder_block_table"};

uintptr_t address(const void* data) noexcept { return reinterpret_cast<uintptr_t>(data); }

MemoryRegion region_of(std::string name, device::BufferView memory, MemoryRole role) {
  return {
      .begin = address(memory.data), .bytes = memory.bytes, .role = role, .name = std::move(name)};
}

device::BufferView extent_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.extent() : device::BufferView{};
}

}  // namespace

void GraphVerification::add_memory(std::string name, device::BufferView memory, MemoryRole role) {
  fixed_.push_back(region_of(std::move(name), memory, role));
  pool_bytes_ = 0;
}

void GraphVerification::add_weights(const models::Parameters& parameters) {
  for (const auto& [name, memory] : parameters.named_memory()) {
    add_memory(std::string(name), memory, MemoryRole::constant);
  }
}

void GraphVerification::add_caches(const kv_cache::KvCacheTensors& cache,
                                   const kv_cache::StateCacheTensors& states) {
  size_t index = 0;
  for (const Tensor& tensor : cache.tensors()) {
    const bool has_values = cache.layout().has_values;
    const char* part = !has_values ? "latents" : index % 2 == 0 ? "keys" : "values";
    add_memory(fmt::format("KV cache, {} of layer {}", part, index / (has_values ? 2 : 1)),
               tensor.extent(),
               MemoryRole::kept);
    ++index;
  }
  add_memory("recurrent states", states.memory(), MemoryRole::kept);
}

// The pools grow while keys are captured.
void GraphVerification::update_pools() {
  const device::MemoryPool& graphs = execution_->graph_pool();
  const device::MemoryPool& eager = execution_->eager_pool();
  const size_t bytes = graphs.reserved_bytes() + eager.reserved_bytes() + 1;
  if (bytes == pool_bytes_) return;
  pool_bytes_ = bytes;
  memory_.clear_lasting();
  for (const MemoryRegion& region : fixed_) memory_.add(region);
  for (const device::BufferView& range : graphs.ranges()) {
    memory_.add(region_of("graph pool", range, MemoryRole::workspace));
  }
  // Eager work runs between the pieces of a key.
  for (const device::BufferView& range : eager.ranges()) {
    memory_.add(region_of("pool of eager work", range, MemoryRole::foreign));
  }
  for (const kernels::ScratchMemory& scratch : execution_->executor().scratch()) {
    memory_.add(region_of(std::string(scratch.name),
                          scratch.memory,
                          scratch.keeps_content ? MemoryRole::kept : MemoryRole::workspace));
  }
  overlap_.reset();
  if (const auto overlap = memory_.find_overlap()) {
    overlap_ = {.rule = cudagraph::GraphRule::keeps_lifetimes_apart,
                .node = std::nullopt,
                .kernel = {},
                .place = {},
                .buffer = fmt::format("{} and {}", overlap->first->name, overlap->second->name),
                .problem = "two kinds of memory have bytes in common"};
  }
}

void GraphVerification::add_path(const AttentionPath& path) {
  const auto add = [this](const char* name, const Tensor& tensor, MemoryRole role) {
    memory_.add_for_key(region_of(name, extent_of(tensor), role));
  };
  add("attention plan", path.plan, MemoryRole::staged);
  add("attention of parts", path.partials, MemoryRole::workspace);
  add("attention of segments", path.segment_sums, MemoryRole::workspace);
  add("counters of segments", path.segment_counters, MemoryRole::kept);
  add("attention of the shared prefix", path.prefix_states, MemoryRole::workspace);
}

void GraphVerification::begin_key(std::span<const Tensor> inputs, const AttentionPath& path) {
  if (!is_on() || stage_ == Stage::second_capture) return;
  seconds_ = 0;
  const SecondsScope time(seconds_);
  stage_ = Stage::first_capture;
  has_second_ = false;
  memory_.begin_key();
  verifier_.begin_key();
  first_.clear();
  second_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    memory_.add_for_key(
        region_of(std::string(kInputNames.at(i)), extent_of(inputs[i]), MemoryRole::staged));
  }
  add_path(path);
}

void GraphVerification::begin_second_capture() noexcept {
  stage_ = Stage::second_capture;
  has_second_ = true;
}

void GraphVerification::on_graph(const device::Graph& graph) {
  const SecondsScope time(seconds_);
  update_pools();
  const bool is_strict = level_ == cudagraph::VerifyGraphs::strict;
  for (const device::GraphNode& node : graph.nodes()) {
    uses_.clear();
    for (const device::BufferUse& use : node.uses) {
      uses_.push_back({.begin = address(use.data),
                       .bytes = use.bytes,
                       .reads = use.access != device::BufferUse::Access::write,
                       .writes = use.writes()});
    }
    const CapturedNode captured{.kernel = node.kernel,
                                .num_blocks = node.num_blocks,
                                .tells_uses = node.tells_uses,
                                .uses = uses_,
                                .args = node.args};
    if (stage_ == Stage::second_capture) {
      second_.add(captured);
      continue;
    }
    verifier_.add(captured);
    if (is_strict) first_.add(captured);
  }
}

void GraphVerification::on_eager_results(std::span<const Tensor> results) {
  if (stage_ != Stage::first_capture) return;
  for (const Tensor& result : results) {
    const device::BufferView memory = extent_of(result);
    verifier_.add_eager_write(address(memory.data), memory.bytes);
  }
}

void GraphVerification::on_copied_inputs(std::span<const Tensor> copies) {
  for (const Tensor& copy : copies) {
    memory_.add_for_key(region_of("copied input", extent_of(copy), MemoryRole::staged));
  }
}

void GraphVerification::judge(cudagraph::CaptureRecord& record) {
  if (!is_on()) return;
  const cudagraph::KeyProof& proof = verifier_.proof();
  std::vector<cudagraph::Violation> violations = proof.violations;
  size_t num_violations = proof.num_violations;
  if (has_second_) {
    if (auto difference = first_.find_difference(second_)) {
      violations.push_back(*std::move(difference));
      ++num_violations;
    }
  }
  if (overlap_) {
    violations.push_back(*overlap_);
    ++num_violations;
  }
  stage_ = Stage::idle;
  record.verify_seconds = seconds_;
  record.verdict = proof.num_untold > 0 ? CaptureVerdict::partly_proved : CaptureVerdict::proved;
  if (violations.empty()) return;
  record.verdict = CaptureVerdict::violated;
  record.rule = to_string(violations.front().rule);
  record.failure = describe(violations.front());
  if (num_violations > 1) {
    record.failure += fmt::format(" ({} more violations)", num_violations - 1);
  }
}

}  // namespace reprise::runner
