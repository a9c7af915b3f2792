#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/verify/memory_map.h"
#include "reprise/device/device.h"
#include "reprise/device/kernel.h"
#include "reprise/runner/graph_verification.h"

namespace reprise::runner {

/// Memory that a node uses, from its first to its last byte.
struct NamedUse {
  std::string memory;  // a weight, a part of the cache, an input, "graph pool"; empty: not known
  cudagraph::MemoryRole role = cudagraph::MemoryRole::workspace;
  size_t bytes = 0;
  bool reads = false;
  bool writes = false;
};

/// A launch of a step, with the names of its memory.
struct NamedLaunch {
  std::string kernel;
  uint32_t num_blocks = 0;
  bool is_captured = true;          // false: it runs eagerly between the graphs of a PIECEWISE key
  bool waits_for_previous = false;  // whether there is a barrier before it
  bool tells_uses = true;           // false: a library does not say which memory it uses
  std::vector<NamedUse> uses;
};

/// Records all captured nodes by key, and names the memory that they use. It is the observer in
/// front of the verification, to which it forwards every call. Belongs to the runner's thread.
class GraphInventory final : public cudagraph::CaptureObserver {
 public:
  /// \pre verification.is_on(), because the verification knows the names. `verification` and
  /// `permission` must outlive this object.
  GraphInventory(GraphVerification& verification, cudagraph::CapturePermission& permission) noexcept
      : verification_(&verification), permission_(&permission) {}
  GraphInventory(const GraphInventory&) = delete;
  GraphInventory& operator=(const GraphInventory&) = delete;

  /// The next graphs belong to this key.
  void begin(cudagraph::CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& descriptor);
  void on_graph(const device::Graph& graph) override;
  void on_copied_inputs(std::span<const Tensor> copies) override {
    verification_->on_copied_inputs(copies);
  }
  void on_eager_results(std::span<const Tensor> results) override {
    verification_->on_eager_results(results);
  }

  /// Drops the nodes of a key.
  void forget(const cudagraph::PlannedKey& key) {
    current_ = nullptr;
    nodes_[static_cast<size_t>(key.mode)].erase(key.descriptor);
  }
  /// The nodes of all graphs of a key, in order.
  [[nodiscard]] std::span<const NamedLaunch> of(cudagraph::CudagraphRuntimeMode mode,
                                                const cudagraph::BatchDescriptor& descriptor) const;
  /// Names the memory of an eager launch. \pre the step runs while a NamingScope lives
  [[nodiscard]] NamedLaunch name(const device::Launch& launch) const;

  /// While the scope lives, the inputs of each step have names.
  class NamingScope {
   public:
    explicit NamingScope(GraphInventory& inventory)
        : observed_(*inventory.permission_, &inventory) {}

   private:
    ObserverScope observed_;
  };

 private:
  using ByDescriptor = std::unordered_map<cudagraph::BatchDescriptor, std::vector<NamedLaunch>>;

  [[nodiscard]] std::vector<NamedUse> name(std::span<const device::BufferUse> uses) const;

  GraphVerification* verification_;
  cudagraph::CapturePermission* permission_;
  std::array<ByDescriptor, 3> nodes_;  // by mode
  std::vector<NamedLaunch>* current_ = nullptr;
};

}  // namespace reprise::runner
