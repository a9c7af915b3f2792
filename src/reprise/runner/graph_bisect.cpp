#include "reprise/runner/graph_bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "reprise/runner/shadow_check.h"

namespace reprise::runner {
namespace {

using cudagraph::CudagraphRuntimeMode;
using device::BufferUse;

constexpr size_t kAllLaunches = std::numeric_limits<size_t>::max();
constexpr size_t kShownBytes = 16;

StepLaunch note(const device::Launch& launch) {
  return {.kernel = launch.kernel,
          .num_blocks = launch.num_blocks,
          .uses = {launch.uses.begin(), launch.uses.end()}};
}

bool overlap(const BufferUse& a, const BufferUse& b) noexcept {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.data);
  const auto begin_b = reinterpret_cast<uintptr_t>(b.data);
  return begin_a < begin_b + b.bytes && begin_b < begin_a + a.bytes;
}

uint64_t digest_of(std::span<const std::byte> bytes) noexcept {
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (const std::byte byte : bytes) {
    digest = (digest ^ static_cast<uint64_t>(byte)) * 0x100000001b3ULL;
  }
  return digest;
}

std::vector<std::byte> copy_of(const BufferUse& use) {
  const auto* const begin = static_cast<const std::byte*>(use.data);
  return {begin, begin + use.bytes};
}

/// Runs only the first launches of a step, and records them.
class PrefixProbe final : public device::LaunchProbe {
 public:
  using Prepare = std::function<void(const StepLaunch&)>;

  /// `prepare` is called before each eager launch that runs. May be empty.
  PrefixProbe(size_t limit, std::span<const StepLaunch> graph, Prepare prepare)
      : limit_(limit), graph_(graph), prepare_(std::move(prepare)) {}

  bool on_launch(const device::Launch& launch) override {
    if (launches_.size() == limit_) return false;
    launches_.push_back(note(launch));
    if (prepare_) prepare_(launches_.back());
    return true;
  }
  size_t on_graph(size_t num_nodes) override {
    const size_t num_run = std::min(num_nodes, limit_ - launches_.size());
    for (size_t i = 0; i < num_run && next_ + i < graph_.size(); ++i) {
      launches_.push_back(graph_[next_ + i]);
    }
    next_ += num_nodes;
    return num_run;
  }
  [[nodiscard]] std::vector<StepLaunch> take() { return std::move(launches_); }

 private:
  size_t limit_;
  std::span<const StepLaunch> graph_;
  Prepare prepare_;
  size_t next_ = 0;  // in graph_: the first node of the next graph
  std::vector<StepLaunch> launches_;
};

/// Whether bytes differ at which both eager runs agree. `details` gets the first such place.
bool compare(std::span<const std::byte> replayed,
             std::span<const std::byte> eager,
             std::span<const std::byte> eager_again,
             WrongNode::Memory& details) {
  details.first_difference = details.bytes;
  if (replayed.size() != eager.size() || eager.size() != eager_again.size()) return true;
  for (size_t i = 0; i < eager.size(); ++i) {
    if (replayed[i] == eager[i] || eager[i] != eager_again[i]) continue;
    details.first_difference = i;
    for (size_t k = i; k < std::min(eager.size(), i + kShownBytes); ++k) {
      details.replayed.push_back(static_cast<uint8_t>(replayed[k]));
      details.eager.push_back(static_cast<uint8_t>(eager[k]));
    }
    return true;
  }
  return false;
}

Json to_json(const WrongNode::Memory& memory, bool is_output) {
  Json json = {{"bytes", memory.bytes},
               {"replayed_address", fmt::format("{}", memory.replayed_address)},
               {"eager_address", fmt::format("{}", memory.eager_address)},
               {"replayed_digest", fmt::format("{:016x}", memory.replayed_digest)},
               {"eager_digest", fmt::format("{:016x}", memory.eager_digest)}};
  if (!is_output || memory.replayed.empty()) return json;
  json["first_difference"] = memory.first_difference;
  json["replayed"] = memory.replayed;
  json["eager"] = memory.eager;
  return json;
}

}  // namespace

void CapturedLaunches::begin(CudagraphRuntimeMode mode,
                             const cudagraph::BatchDescriptor& descriptor) {
  current_ = &launches_[static_cast<size_t>(mode)][descriptor];
  current_->clear();
}

void CapturedLaunches::on_recorded(const device::Launch& launch) {
  if (current_ != nullptr) current_->push_back(note(launch));
}

void CapturedLaunches::forget(const cudagraph::PlannedKey& key) {
  current_ = nullptr;
  launches_[static_cast<size_t>(key.mode)].erase(key.descriptor);
}

void CapturedLaunches::clear() noexcept {
  current_ = nullptr;
  for (ByDescriptor& of_mode : launches_) of_mode.clear();
}

std::span<const StepLaunch> CapturedLaunches::of(
    CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& descriptor) const {
  const ByDescriptor& of_mode = launches_[static_cast<size_t>(mode)];
  const auto found = of_mode.find(descriptor);
  return found == of_mode.end() ? std::span<const StepLaunch>() : found->second;
}

std::string to_string(const WrongNode& node) {
  if (!node.problem.empty()) return node.problem;
  return fmt::format("node {} of {}: {}", node.node, node.num_nodes, node.kernel);
}

Json to_json(const WrongNode& node) {
  if (!node.problem.empty()) return {{"problem", node.problem}};
  Json inputs = Json::array();
  for (const WrongNode::Memory& memory : node.inputs) inputs.push_back(to_json(memory, false));
  Json outputs = Json::array();
  for (const WrongNode::Memory& memory : node.outputs) outputs.push_back(to_json(memory, true));
  return {{"node", node.node},
          {"num_nodes", node.num_nodes},
          {"num_prefix_replays", node.num_prefix_replays},
          {"kernel", node.kernel},
          {"num_blocks", node.num_blocks},
          {"inputs", inputs},
          {"outputs", outputs}};
}

GraphBisect::GraphBisect(ShadowCheck& check,
                         device::Stream& stream,
                         std::span<const StepLaunch> graph,
                         std::vector<device::BufferView> kept,
                         Run run)
    : check_(&check),
      stream_(&stream),
      graph_(graph),
      kept_(std::move(kept)),
      run_(std::move(run)) {}

bool GraphBisect::is_kept(const BufferUse& use) const noexcept {
  return std::ranges::any_of(kept_, [&](const device::BufferView& memory) {
    return memory.bytes > 0 && overlap(use, {.data = memory.data, .bytes = memory.bytes});
  });
}

GraphBisect::Prefix GraphBisect::run_prefix(CudagraphRuntimeMode mode,
                                            size_t num_launches,
                                            Poison poison) {
  // Launches may leave parts of their results unwritten. These parts, and what later launches
  // compute from them, then differ between the two kinds of poison.
  const auto fill_results = [&](const StepLaunch& launch) {
    for (const BufferUse& use : launch.uses) {
      if (use.access != BufferUse::Access::write || use.bytes == 0 || is_kept(use)) continue;
      const bool is_read = std::ranges::any_of(launch.uses, [&](const BufferUse& other) {
        return other.access != BufferUse::Access::write && other.bytes > 0 && overlap(use, other);
      });
      if (is_read) continue;
      std::memset(const_cast<void*>(use.data), poison == Poison::ones ? 0xff : 0, use.bytes);
    }
  };
  PrefixProbe probe(
      num_launches, graph_, poison == Poison::none ? PrefixProbe::Prepare() : fill_results);
  check_->restore();
  {
    const ProbeScope scope(*stream_, &probe);
    run_(mode);
    stream_->synchronize();
  }
  Prefix prefix{.launches = probe.take(), .written = {}, .read = {}, .kept = {}};
  copy_written(prefix);
  check_->memory().for_each_changed([&](const StepRegion& region) {
    prefix.kept.insert(prefix.kept.end(), region.data, region.data + region.bytes);
  });
  return prefix;
}

void GraphBisect::copy_written(Prefix& prefix) const {
  prefix.written.resize(prefix.launches.size());
  std::vector<BufferUse> later;
  for (size_t i = prefix.launches.size(); i-- > 0;) {
    const std::vector<BufferUse>& uses = prefix.launches[i].uses;
    prefix.written[i].resize(uses.size());
    for (size_t u = 0; u < uses.size(); ++u) {
      if (!uses[u].writes() || uses[u].bytes == 0 || is_kept(uses[u])) continue;
      const bool is_lost =
          std::ranges::any_of(later, [&](const BufferUse& use) { return overlap(uses[u], use); });
      if (!is_lost) prefix.written[i][u] = copy_of(uses[u]);
    }
    for (const BufferUse& use : uses) {
      if (use.writes() && use.bytes > 0) later.push_back(use);
    }
  }
  if (prefix.launches.empty()) return;
  for (const BufferUse& use : prefix.launches.back().uses) {
    prefix.read.push_back(use.writes() ? std::vector<std::byte>() : copy_of(use));
  }
}

bool GraphBisect::differs(size_t num_launches, WrongNode& details) {
  const Prefix replayed = run_prefix(mode_, num_launches, Poison::none);
  const Prefix eager = run_prefix(CudagraphRuntimeMode::NONE, num_launches, Poison::zeros);
  const Prefix again = run_prefix(CudagraphRuntimeMode::NONE, num_launches, Poison::ones);
  const size_t count = std::min(
      {replayed.launches.size(), eager.launches.size(), again.launches.size(), num_launches});
  bool is_different = false;
  details.inputs.clear();
  details.outputs.clear();
  for (size_t i = 0; i < count; ++i) {
    const StepLaunch& of_graph = replayed.launches[i];
    const StepLaunch& of_eager = eager.launches[i];
    const size_t num_uses =
        std::min({of_graph.uses.size(), of_eager.uses.size(), again.launches[i].uses.size()});
    for (size_t u = 0; u < num_uses; ++u) {
      WrongNode::Memory memory{.bytes = of_graph.uses[u].bytes,
                               .replayed_address = of_graph.uses[u].data,
                               .eager_address = of_eager.uses[u].data};
      const bool is_output = of_graph.uses[u].writes();
      const std::vector<std::byte>& there = replayed.written[i][u];
      const std::vector<std::byte>& here = eager.written[i][u];
      const std::vector<std::byte>& here_again = again.written[i][u];
      if (is_output && !there.empty() && !here.empty() && !here_again.empty()) {
        is_different = compare(there, here, here_again, memory) || is_different;
      }
      if (i + 1 != count) continue;
      const std::vector<std::byte>& replayed_bytes = is_output ? there : replayed.read[u];
      const std::vector<std::byte>& eager_bytes = is_output ? here : eager.read[u];
      memory.replayed_digest = digest_of(replayed_bytes);
      memory.eager_digest = digest_of(eager_bytes);
      (is_output ? details.outputs : details.inputs).push_back(std::move(memory));
    }
  }
  WrongNode::Memory kept{.bytes = eager.kept.size()};
  if (compare(replayed.kept, eager.kept, again.kept, kept)) {
    is_different = true;
    details.outputs.push_back(std::move(kept));
  }
  if (count > 0) {
    details.kernel = replayed.launches[count - 1].kernel->name;
    details.num_blocks = replayed.launches[count - 1].num_blocks;
  }
  return is_different;
}

bool GraphBisect::same_kernels(const Prefix& replayed, const Prefix& eager, WrongNode& found) {
  const size_t count = std::min(replayed.launches.size(), eager.launches.size());
  for (size_t i = 0; i <= count; ++i) {
    const bool is_end = i == count;
    if (is_end && replayed.launches.size() == eager.launches.size()) return true;
    const auto name_at = [i](const Prefix& prefix) {
      return i < prefix.launches.size() ? prefix.launches[i].kernel->name : "nothing";
    };
    const std::string_view of_graph = name_at(replayed);
    const std::string_view of_eager = name_at(eager);
    if (!is_end && of_graph == of_eager) continue;
    found.node = i;
    found.kernel = of_graph;
    found.problem = fmt::format(
        "the graph and the eager run are not made of the same launches: launch {} is {} in the "
        "graph and {} in the eager run",
        i,
        of_graph,
        of_eager);
    return false;
  }
  return true;
}

WrongNode GraphBisect::find(CudagraphRuntimeMode mode) {
  mode_ = mode;
  WrongNode found;
  if (dynamic_cast<device::ProbedStream*>(stream_) == nullptr || graph_.empty()) {
    found.problem = "this device cannot replay the first nodes of a graph";
    check_->restore();
    return found;
  }
  const Prefix replayed = run_prefix(mode, kAllLaunches, Poison::none);
  const Prefix eager = run_prefix(CudagraphRuntimeMode::NONE, kAllLaunches, Poison::none);
  found.num_nodes = replayed.launches.size();
  WrongNode details = found;
  if (!same_kernels(replayed, eager, found)) {
    check_->restore();
    return found;
  }
  if (!differs(found.num_nodes, details)) {
    found.problem = "the difference did not come again when the step was replayed once more";
    check_->restore();
    return found;
  }
  // The first `good` launches are right; the first `bad` launches are not all right.
  size_t good = 0;
  size_t bad = found.num_nodes;
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    WrongNode of_middle;
    ++found.num_prefix_replays;
    if (differs(middle, of_middle)) {
      bad = middle;
      details = std::move(of_middle);
    } else {
      good = middle;
    }
  }
  check_->restore();
  details.node = bad - 1;
  details.num_nodes = found.num_nodes;
  details.num_prefix_replays = found.num_prefix_replays;
  return details;
}

}  // namespace reprise::runner
