#include "reprise/runner/graph_profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/launch_probe.h"
#include "reprise/runner/graph_bisect.h"
#include "reprise/runner/graph_inventory.h"

namespace reprise::runner {
namespace {

using cudagraph::BatchDescriptor;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::MemoryRole;

constexpr int32_t kMostDefaultContext = 256;
constexpr int kWarmUpRuns = 2;
// For a node alone: each pass is the mean of this many runs, and the reported times are those of
// the passes.
constexpr uint32_t kRunsOfAPass = 10;
constexpr int32_t kMostPasses = 5;

/// Lists the launches of a replay and times them.
class ProfilingProbe final : public device::LaunchProbe {
 public:
  ProfilingProbe(const GraphInventory& inventory,
                 std::span<const NamedLaunch> graph,
                 uint32_t timed_runs) noexcept
      : inventory_(&inventory), graph_(graph), timed_runs_(timed_runs) {}

  bool on_launch(const device::Launch& launch) override {
    launches_.push_back(inventory_->name(launch));
    return true;
  }
  size_t on_graph(size_t num_nodes) override {
    for (size_t i = 0; i < num_nodes && next_ < graph_.size(); ++i) {
      launches_.push_back(graph_[next_++]);
    }
    return num_nodes;
  }
  [[nodiscard]] uint32_t timed_runs() const override { return timed_runs_; }
  void on_time(std::chrono::nanoseconds time) override {
    microseconds_.push_back(std::chrono::duration<double, std::micro>(time).count() / timed_runs_);
  }

  [[nodiscard]] const std::vector<NamedLaunch>& launches() const noexcept { return launches_; }
  /// By launch.
  [[nodiscard]] const std::vector<double>& microseconds() const noexcept { return microseconds_; }

 private:
  const GraphInventory* inventory_;
  std::span<const NamedLaunch> graph_;
  uint32_t timed_runs_;
  size_t next_ = 0;  // in graph_
  std::vector<NamedLaunch> launches_;
  std::vector<double> microseconds_;
};

/// Computes which bytes a node touches. Launches declare memory from its first to its last byte,
/// even if they look up only some rows of it.
class TouchedMemory {
 public:
  TouchedMemory(const GraphProfile& profile, const ModelRunner& runner, int64_t num_positions)
      : num_tokens_(static_cast<uint64_t>(profile.num_tokens)),
        context_(static_cast<uint64_t>(profile.num_reqs) *
                 static_cast<uint64_t>(profile.context_len)),
        num_states_(static_cast<uint64_t>(profile.descriptor.uniform ? profile.num_tokens
                                                                     : profile.num_reqs)),
        num_slots_(static_cast<uint64_t>(
            std::max<int64_t>(runner.states().layout().addressed_slots(), 1))),
        num_positions_(static_cast<uint64_t>(num_positions)) {
    const kv_cache::KvCacheLayout& cache = runner.kv_cache().layout();
    cache_row_bytes_ =
        static_cast<uint64_t>(cache.num_kv_heads * cache.row_elements()) * dtype_bytes(cache.dtype);
  }

  [[nodiscard]] std::vector<NodeMemory> of(const NamedLaunch& launch) const {
    std::vector<NodeMemory> memory;
    for (const NamedUse& use : launch.uses) {
      memory.push_back({.name = use.memory,
                        .bytes = std::min<uint64_t>(use.bytes, rows_of(launch, use)),
                        .reads = use.reads,
                        .writes = use.writes,
                        .is_at_most = chooses_rows(use)});
    }
    return memory;
  }

 private:
  /// Whether the tokens of a step decide which rows are used, as for experts and adapters.
  static bool chooses_rows(const NamedUse& use) {
    const std::string_view name = use.memory;
    return name.find(".experts") != std::string_view::npos || name.ends_with(".lora_A") ||
           name.ends_with(".lora_B");
  }
  static bool looks_up_tokens(const NamedLaunch& launch) {
    return op_of_kernel(launch.kernel) == "gather_rows" ||
           std::ranges::any_of(launch.uses,
                               [](const NamedUse& use) { return use.memory == "input_ids"; });
  }
  static uint64_t written_by(const NamedLaunch& launch) {
    uint64_t bytes = 0;
    for (const NamedUse& use : launch.uses) bytes += use.writes ? use.bytes : 0;
    return bytes;
  }
  /// The bytes of the rows that the step looks up. If this is more than the memory has, the step
  /// uses all of it.
  [[nodiscard]] uint64_t rows_of(const NamedLaunch& launch, const NamedUse& use) const {
    const std::string_view name = use.memory;
    if (use.role == MemoryRole::kept && name.starts_with("KV cache")) {
      return cache_row_bytes_ * (num_tokens_ + (use.reads ? context_ : 0));
    }
    if (use.role == MemoryRole::kept && name == "recurrent states") {
      return use.bytes / num_slots_ * num_states_;
    }
    if (use.role == MemoryRole::constant && name.ends_with("_table") && num_positions_ > 0 &&
        use.bytes % num_positions_ == 0) {
      return use.bytes / num_positions_ * num_tokens_;
    }
    // A row that is only copied is read once.
    if (use.role != MemoryRole::staged && !use.writes && looks_up_tokens(launch)) {
      return written_by(launch);
    }
    return use.bytes;
  }

  uint64_t num_tokens_;
  uint64_t context_;     // of all requests together
  uint64_t num_states_;  // states that the step changes; a decode step keeps one for each token
  uint64_t num_slots_;
  uint64_t num_positions_;
  uint64_t cache_row_bytes_ = 0;  // bytes of one token in one tensor of the cache
};

/// Adds nodes in their order. A node that uses no memory of a layer is in the layer of the node
/// before it, until the first weight that belongs to no layer.
class NodeList {
 public:
  NodeList(GraphProfile& profile, const TouchedMemory& touched)
      : profile_(&profile), touched_(&touched) {}

  void add(const NamedLaunch& launch) {
    find_place(launch);
    profile_->nodes.push_back({.kernel = launch.kernel,
                               .op = op_of_kernel(launch.kernel),
                               .layer = layer_,
                               .weight = weight_,
                               .num_blocks = launch.num_blocks,
                               .is_captured = launch.is_captured,
                               .waits_for_previous = launch.waits_for_previous,
                               .tells_uses = launch.tells_uses,
                               .memory = touched_->of(launch),
                               .in_place = std::nullopt,
                               .alone = std::nullopt});
  }

 private:
  void find_place(const NamedLaunch& launch) {
    std::string cache;
    weight_.clear();
    std::optional<int32_t> layer;
    for (const NamedUse& use : launch.uses) {
      const bool is_weight = use.role == MemoryRole::constant && !use.memory.ends_with("_table");
      if (!is_weight && use.role != MemoryRole::kept) continue;
      std::string& name = is_weight ? weight_ : cache;
      if (name.empty()) name = use.memory;
      if (!layer) layer = layer_of_memory(use.memory);
    }
    if (layer || !weight_.empty()) layer_ = layer;
    if (weight_.empty()) weight_ = std::move(cache);
  }

  GraphProfile* profile_;
  const TouchedMemory* touched_;
  std::optional<int32_t> layer_;
  std::string weight_;
};

}  // namespace

PaddingWaste padding_of(const cudagraph::CudagraphDispatcher& dispatcher,
                        CudagraphRuntimeMode mode,
                        const BatchDescriptor& descriptor) {
  const int32_t query_len =
      descriptor.uniform ? descriptor.num_tokens / descriptor.num_reqs.value_or(1) : 1;
  PaddingWaste waste;
  double sum = 0;
  int32_t count = 0;
  for (int32_t tokens = query_len; tokens <= descriptor.num_tokens; tokens += query_len) {
    const cudagraph::Decision decision =
        dispatcher.dispatch({.num_tokens = tokens,
                             .num_reqs = descriptor.uniform ? tokens / query_len : 1,
                             .uniform = descriptor.uniform,
                             .query_len = descriptor.uniform ? query_len : 0,
                             .num_active_loras = descriptor.num_active_loras});
    if (decision.mode != mode || decision.descriptor != descriptor) continue;
    const double share = 1.0 - static_cast<double>(tokens) / descriptor.num_tokens;
    if (count == 0) {
      waste.fewest_tokens = tokens;
      waste.largest_share = share;
    }
    waste.most_tokens = tokens;
    sum += share;
    ++count;
  }
  if (count > 0) waste.mean_share = sum / count;
  return waste;
}

bool GraphProfiler::make_requests(const GraphProfile& profile, int32_t context_len) {
  const BatchLimits& limits = runner_->input_batch().limits();
  const kv_cache::StateCacheLayout& states = runner_->states().layout();
  const int32_t block_size = limits.block_size;
  const int32_t each = profile.num_tokens / profile.num_reqs;
  const int32_t num_longer = profile.num_tokens % profile.num_reqs;
  const int32_t longest = context_len + each + (num_longer > 0 ? 1 : 0);
  const int32_t most_blocks = (longest + block_size - 1) / block_size;
  // The null block belongs to no request.
  const int64_t free_blocks = runner_->kv_cache().layout().num_blocks - 1;
  const bool has_cache = runner_->kv_cache().layout().num_layers > 0;
  if (most_blocks > limits.max_blocks_per_req) return false;
  if (has_cache && int64_t{most_blocks} * profile.num_reqs > free_blocks) return false;
  requests_.begin(static_cast<size_t>(profile.num_tokens),
                  static_cast<size_t>(most_blocks) * static_cast<size_t>(profile.num_reqs));
  for (int32_t i = 0; i < profile.num_reqs; ++i) {
    const int32_t num_tokens = each + (i < num_longer ? 1 : 0);
    const int32_t num_drafts =
        profile.descriptor.uniform ? std::min(num_tokens, limits.max_sampled_rows_per_req) - 1 : 0;
    kv_cache::StateSlot slot = kv_cache::kNullStateSlot;
    const int64_t first_slot = i * states.slots_per_req + 1;
    if (first_slot + states.slots_per_req <= states.num_slots) {
      slot = kv_cache::StateSlot{static_cast<int32_t>(first_slot)};
    }
    requests_.add({.num_tokens = num_tokens,
                   .context = context_len,
                   .num_drafts = num_drafts,
                   .state_slot = slot},
                  block_size);
  }
  return true;
}

double GraphProfiler::run(const GraphProfile& profile, CudagraphRuntimeMode run_as) {
  runner_->spans().clear();
  (void)runner_->run(
      requests_.entries(), {.mode = profile.mode, .descriptor = profile.descriptor}, run_as);
  runner_->execution().stream().synchronize();
  const TimePoint end = std::chrono::steady_clock::now();
  for (const PhaseSpan& span : runner_->spans().all()) {
    if (span.phase != StepPhase::launch) continue;
    return std::chrono::duration<double, std::micro>(end - span.begin).count();
  }
  return 0;
}

GraphProfile GraphProfiler::begin(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor) {
  const BatchLimits& limits = runner_->input_batch().limits();
  GraphProfile profile;
  profile.mode = mode;
  profile.descriptor = descriptor;
  profile.num_tokens = descriptor.num_tokens;
  // The shape of a PIECEWISE key does not fix the number of requests: a chunk of one prompt can
  // fill it.
  const int32_t longest = limits.max_blocks_per_req * limits.block_size;
  const int32_t fewest = (descriptor.num_tokens + longest - 1) / longest;
  profile.num_reqs = descriptor.num_reqs.value_or(std::clamp(
      options_.num_reqs.value_or(1), fewest, std::min(descriptor.num_tokens, limits.max_num_reqs)));
  profile.num_replays = std::max(options_.num_replays, 1);
  profile.padding = padding_of(runner_->dispatcher(), mode, descriptor);
  profile.context_len = options_.context_len.value_or(kMostDefaultContext);
  while (!make_requests(profile, profile.context_len)) {
    if (options_.context_len || profile.context_len == 0) {
      throw InvalidArgument(
          fmt::format("{} requests of {} tokens with {} tokens in the cache do not fit: a request "
                      "has at most {} tokens, and the cache has {} blocks of {}",
                      profile.num_reqs,
                      profile.num_tokens / profile.num_reqs,
                      profile.context_len,
                      longest,
                      runner_->kv_cache().layout().num_blocks - 1,
                      limits.block_size));
    }
    profile.context_len /= 2;
  }
  for (int i = 0; i < kWarmUpRuns; ++i) {
    run(profile, mode);
    run(profile, CudagraphRuntimeMode::NONE);
  }
  return profile;
}

GraphProfile GraphProfiler::measure_whole(CudagraphRuntimeMode mode,
                                          const BatchDescriptor& descriptor) {
  GraphProfile profile = begin(mode, descriptor);
  std::vector<double> replays;
  std::vector<double> eager;
  for (int32_t i = 0; i < profile.num_replays; ++i) {
    replays.push_back(run(profile, mode));
    eager.push_back(run(profile, CudagraphRuntimeMode::NONE));
  }
  profile.replay = spread_of(std::move(replays));
  profile.eager = spread_of(std::move(eager));
  const TouchedMemory touched(profile, *runner_, options_.num_positions);
  NodeList list(profile, touched);
  for (const NamedLaunch& launch : runner_->inventory()->of(mode, descriptor)) list.add(launch);
  return profile;
}

GraphProfile GraphProfiler::profile(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor) {
  GraphProfile profile = measure_whole(mode, descriptor);
  if (dynamic_cast<device::ProbedStream*>(&runner_->execution().stream()) == nullptr) {
    profile.why_no_node_times = "this device runs a graph as a whole: its nodes cannot be timed";
    return profile;
  }
  time_nodes(profile);
  return profile;
}

void GraphProfiler::time_nodes(GraphProfile& profile) {
  GraphInventory& inventory = *runner_->inventory();
  const std::span<const NamedLaunch> graph = inventory.of(profile.mode, profile.descriptor);
  const GraphInventory::NamingScope names(inventory);
  std::vector<std::vector<double>> in_place;  // by node
  std::vector<std::vector<double>> alone;
  const auto replay = [&](uint32_t timed_runs, std::vector<std::vector<double>>& times) {
    ProfilingProbe probe(inventory, graph, timed_runs);
    {
      const ProbeScope scope(runner_->execution().stream(), &probe);
      run(profile, profile.mode);
    }
    times.resize(probe.microseconds().size());
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(probe.microseconds()[i]);
    return probe.launches();
  };
  const TouchedMemory touched(profile, *runner_, options_.num_positions);
  NodeList list(profile, touched);
  profile.nodes.clear();  // a replay also has the eager launches between graphs
  for (int32_t i = 0; i < profile.num_replays; ++i) {
    const std::vector<NamedLaunch> launches = replay(1, in_place);
    if (i > 0) continue;
    for (const NamedLaunch& launch : launches) list.add(launch);
  }
  const int32_t num_passes = std::min(profile.num_replays, kMostPasses);
  for (int32_t i = 0; i < num_passes; ++i) (void)replay(kRunsOfAPass, alone);
  for (size_t i = 0; i < profile.nodes.size() && i < alone.size(); ++i) {
    profile.nodes[i].in_place = spread_of(std::move(in_place[i]));
    profile.nodes[i].alone = spread_of(std::move(alone[i]));
  }
}

}  // namespace reprise::runner
