#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/device/device.h"
#include "reprise/device/launch_probe.h"
#include "reprise/runner/step_memory.h"

namespace reprise::runner {

class ShadowCheck;

/// One launch of a step: a node of a graph, or an eager launch.
struct StepLaunch {
  const device::Kernel* kernel = nullptr;
  uint32_t num_blocks = 0;
  std::vector<device::BufferUse> uses;
};

/// Records the launches that captures contain, because a graph that can be replayed no longer says
/// which memory its nodes use. Set as a probe while a graph is captured.
class CapturedLaunches final : public device::LaunchProbe {
 public:
  /// The next launches belong to this key.
  void begin(cudagraph::CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& descriptor);
  void on_recorded(const device::Launch& launch) override;
  /// Drops the launches of a key, or of all keys.
  void forget(const cudagraph::PlannedKey& key);
  void clear() noexcept;
  /// The launches of all graphs of a key, in order.
  [[nodiscard]] std::span<const StepLaunch> of(cudagraph::CudagraphRuntimeMode mode,
                                               const cudagraph::BatchDescriptor& descriptor) const;

 private:
  using ByDescriptor = std::unordered_map<cudagraph::BatchDescriptor, std::vector<StepLaunch>>;
  std::array<ByDescriptor, 3> launches_;  // by mode
  std::vector<StepLaunch>* current_ = nullptr;
};

/// A stream has this probe while the scope lives, if the stream supports probes.
class ProbeScope {
 public:
  ProbeScope(device::Stream& stream, device::LaunchProbe* probe)
      : stream_(probe == nullptr ? nullptr : dynamic_cast<device::ProbedStream*>(&stream)) {
    if (stream_ != nullptr) stream_->set_probe(probe);
  }
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;
  ~ProbeScope() {
    if (stream_ != nullptr) stream_->set_probe(nullptr);
  }

 private:
  device::ProbedStream* stream_;
};

/// The first launch of a step whose replay gives other bytes than the eager run.
struct WrongNode {
  /// Why no node is named; empty: a node is named.
  std::string problem;
  size_t node = 0;  // its number, from 0; eager launches between PIECEWISE graphs count too
  size_t num_nodes = 0;
  int num_prefix_replays = 0;
  std::string kernel;
  uint32_t num_blocks = 0;

  struct Memory {
    size_t bytes = 0;
    const void* replayed_address = nullptr;
    const void* eager_address = nullptr;
    uint64_t replayed_digest = 0;  // FNV-1a
    uint64_t eager_digest = 0;
    /// For one output of the node: the first byte that differs, and the bytes from there on (at
    /// most 16). first_difference == bytes: no byte differs.
    size_t first_difference = 0;
    std::vector<uint8_t> replayed;
    std::vector<uint8_t> eager;
  };
  std::vector<Memory> inputs;
  std::vector<Memory> outputs;
};

/// "node 17 of 64: rms_norm_bf16", or the problem.
[[nodiscard]] std::string to_string(const WrongNode& node);
[[nodiscard]] Json to_json(const WrongNode& node);

/// Finds the first wrong node of the staged step. It runs the first k launches of the replay and of
/// the eager run, compares all memory that they have written and no later one of them wrote again,
/// and halves the range of k until one launch is left. Bytes that two eager runs over differently
/// poisoned memory give differently have no meaning and are not compared.
///
/// Only for devices with probed streams whose memory the host can read. Allocates.
class GraphBisect {
 public:
  /// Runs the staged step. \throws as ModelRunner::run
  using Run = std::function<void(cudagraph::CudagraphRuntimeMode)>;

  /// Borrows everything. `graph`: the launches that were captured for the key. `kept`: the memory
  /// that outlives steps; the rows of it that the step uses are compared.
  GraphBisect(ShadowCheck& check,
              device::Stream& stream,
              std::span<const StepLaunch> graph,
              std::vector<device::BufferView> kept,
              Run run);

  /// Finds the node. Afterwards the step's memory is as it was before the step.
  [[nodiscard]] WrongNode find(cudagraph::CudagraphRuntimeMode mode);

 private:
  /// The memory after a run of the first launches.
  struct Prefix {
    std::vector<StepLaunch> launches;
    // For each launch and each of its uses, a copy of the bytes that the launch wrote; empty if a
    // later launch wrote there too.
    std::vector<std::vector<std::vector<std::byte>>> written;
    std::vector<std::vector<std::byte>> read;  // by use of the last launch
    std::vector<std::byte> kept;               // the step's rows of caches and states
  };
  enum class Poison : uint8_t { none, zeros, ones };

  [[nodiscard]] Prefix run_prefix(cudagraph::CudagraphRuntimeMode mode,
                                  size_t num_launches,
                                  Poison poison);
  /// Compares the first `num_launches` launches. Fills in `details` of the last one.
  [[nodiscard]] bool differs(size_t num_launches, WrongNode& details);
  void copy_written(Prefix& prefix) const;
  [[nodiscard]] bool is_kept(const device::BufferUse& use) const noexcept;
  [[nodiscard]] static bool same_kernels(const Prefix& replayed,
                                         const Prefix& eager,
                                         WrongNode& found);

  ShadowCheck* check_;
  device::Stream* stream_;
  std::span<const StepLaunch> graph_;
  std::vector<device::BufferView> kept_;
  Run run_;
  cudagraph::CudagraphRuntimeMode mode_ = cudagraph::CudagraphRuntimeMode::NONE;
};

}  // namespace reprise::runner
