#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "reprise/cudagraph/capture/address_record.h"
#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise::cudagraph {

/// A wrapper has no graph for the key of a call, and it may not capture any more.
class UnknownKeyError : public Error {
 public:
  using Error::Error;
};

struct CudagraphWrapperOptions {
  /// true: the capture is interrupted at each split point. This is PIECEWISE without the compiler.
  bool break_at_split_points = false;
  /// true: before each replay, inputs are copied into buffers of the wrapper. This is for callers
  /// whose input addresses change (`cudagraph_copy_inputs`; PIECEWISE only).
  bool copy_inputs = false;
};

struct CudagraphWrapperCounters {
  uint64_t captures = 0;
  uint64_t replays = 0;
  uint64_t pass_throughs = 0;
};

/// Captures a callable once for each batch descriptor, and replays the graph in all later calls
/// with that descriptor.
///
/// A wrapper has one runtime mode. If the context has another mode, it calls the callable directly;
/// so a FULL wrapper can surround PIECEWISE wrappers. If the context has the wrapper's mode, a
/// known descriptor is replayed, and an unknown one is captured if the permission is open.
///
/// The outputs do not own their memory: they are valid until the next work in the same pool. A
/// capture records kernels without running them, so the call that captures leaves undefined
/// contents in its outputs. Belongs to one thread.
class CudagraphWrapper {
 public:
  /// The callable must clear `outputs` and then fill it.
  using Runnable = std::function<void(
      ForwardContext&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs)>;

  /// `device` and `permission` must outlive the wrapper. \pre mode is FULL or PIECEWISE
  CudagraphWrapper(Runnable runnable,
                   CudagraphRuntimeMode mode,
                   device::Device& device,
                   const CapturePermission& permission,
                   CudagraphWrapperOptions options = {});

  /// \throws StaleAddressError before any launch, if an input or a binding of the context is not
  /// where it was at the capture; UnknownKeyError for an unknown descriptor after sealing; during a
  /// capture device::CaptureError and any exception of the callable (the descriptor then stays
  /// unknown).
  void operator()(ForwardContext& context,
                  std::span<const Tensor> inputs,
                  std::vector<Tensor>& outputs);

  /// Destroys the graph of one key, or all graphs.
  void forget(const BatchDescriptor& descriptor) { entries_.erase(descriptor); }
  void clear() noexcept { entries_.clear(); }

  [[nodiscard]] CudagraphRuntimeMode mode() const noexcept { return mode_; }
  [[nodiscard]] bool has(const BatchDescriptor& descriptor) const {
    return entries_.contains(descriptor);
  }
  [[nodiscard]] const CudagraphWrapperCounters& counters() const noexcept { return counters_; }
  /// Memory of all executable graphs, without the pool.
  [[nodiscard]] size_t graph_bytes() const noexcept;
  /// The number of graphs for one key: 1, or one per segment. 0 if the key is unknown.
  [[nodiscard]] size_t num_graphs(const BatchDescriptor& descriptor) const;
  [[nodiscard]] size_t num_nodes(const BatchDescriptor& descriptor) const;
  /// The number of graphs for all keys.
  [[nodiscard]] size_t num_graphs() const noexcept;

 private:
  using Recording = std::variant<std::unique_ptr<device::GraphExec>, SegmentedGraph>;
  struct Entry {
    AddressRecord addresses;
    Recording recording;
    std::vector<Tensor> outputs;  // these do not own their memory
    // With copy_inputs: the buffers from which the graph reads its inputs.
    std::vector<device::Buffer> copies;
  };

  void capture(ForwardContext& context,
               std::span<const Tensor> inputs,
               std::vector<Tensor>& outputs);
  void capture_again(ForwardContext& context,
                     const Entry& entry,
                     std::span<const Tensor> inputs,
                     std::vector<Tensor>& outputs);
  void replay(ForwardContext& context, Entry& entry, std::span<const Tensor> inputs);
  [[nodiscard]] Recording record(ForwardContext& context,
                                 std::span<const Tensor> inputs,
                                 std::vector<Tensor>& outputs);
  [[noreturn]] void refuse_unknown(const ForwardContext& context) const;

  Runnable runnable_;
  CudagraphRuntimeMode mode_;
  device::Device* device_;
  const CapturePermission* permission_;
  CudagraphWrapperOptions options_;
  std::unordered_map<BatchDescriptor, Entry> entries_;
  CudagraphWrapperCounters counters_;
};

}  // namespace reprise::cudagraph
