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
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise::cudagraph {

/// Whether wrappers may capture. Open during warm-up and sealed before the first request, because a
/// capture on the request path is a bug. Shared by all wrappers of one model; outlives them.
class CapturePermission {
 public:
  void open() noexcept { open_ = true; }
  void seal() noexcept { open_ = false; }
  [[nodiscard]] bool is_open() const noexcept { return open_; }

 private:
  bool open_ = false;
};

/// A wrapper was called with a key that it has no graph for and that it may not capture.
class UnknownKeyError : public Error {
 public:
  using Error::Error;
};

struct CudagraphWrapperOptions {
  /// True: the capture pauses at each split point and continues after it. This is PIECEWISE without
  /// a compiler.
  bool break_at_split_points = false;
  /// Inputs are copied into buffers of the wrapper before each replay, for callers whose input
  /// addresses change (`cudagraph_copy_inputs`; PIECEWISE only).
  bool copy_inputs = false;
};

struct CudagraphWrapperCounters {
  uint64_t captures = 0;
  uint64_t replays = 0;
  uint64_t pass_throughs = 0;
};

/// Captures a callable once per batch descriptor and replays the recorded graph on every later
/// call.
///
/// A wrapper is bound to one runtime mode and follows the context: for another mode it calls the
/// callable directly (so FULL can be nested around PIECEWISE), for a known descriptor it replays,
/// and for an unknown descriptor it captures while the permission is open.
///
/// Recorded outputs do not own their memory: they are valid until the next work that uses the same
/// pool. The capturing call records without running, so the contents of its outputs are undefined.
/// One wrapper belongs to one thread.
class CudagraphWrapper {
 public:
  /// The callable clears and fills `outputs`.
  using Runnable = std::function<void(
      ForwardContext&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs)>;

  /// `device` and `permission` must outlive the wrapper. \pre mode is FULL or PIECEWISE
  CudagraphWrapper(Runnable runnable,
                   CudagraphRuntimeMode mode,
                   device::Device& device,
                   const CapturePermission& permission,
                   CudagraphWrapperOptions options = {});

  /// \throws StaleAddressError before any launch, when an input or a binding of the context has
  /// moved since it was recorded; UnknownKeyError after sealing; device::CaptureError and any
  /// exception of the callable while capturing (the key is then unknown again).
  void operator()(ForwardContext& context,
                  std::span<const Tensor> inputs,
                  std::vector<Tensor>& outputs);

  /// Forgets one key, or all keys, and destroys their graphs.
  void forget(const BatchDescriptor& descriptor) { entries_.erase(descriptor); }
  void clear() noexcept { entries_.clear(); }

  [[nodiscard]] CudagraphRuntimeMode mode() const noexcept { return mode_; }
  [[nodiscard]] bool has(const BatchDescriptor& descriptor) const {
    return entries_.contains(descriptor);
  }
  [[nodiscard]] const CudagraphWrapperCounters& counters() const noexcept { return counters_; }
  /// Memory of all executables without the pool.
  [[nodiscard]] size_t graph_bytes() const noexcept;
  /// Graphs recorded for one key: 1, or one per segment. 0 when unknown.
  [[nodiscard]] size_t num_graphs(const BatchDescriptor& descriptor) const;
  [[nodiscard]] size_t num_nodes(const BatchDescriptor& descriptor) const;
  /// The graphs of all keys.
  [[nodiscard]] size_t num_graphs() const noexcept;

 private:
  using Recording = std::variant<std::unique_ptr<device::GraphExec>, SegmentedGraph>;
  struct Entry {
    AddressRecord addresses;
    Recording recording;
    std::vector<Tensor> outputs;         // without ownership
    std::vector<device::Buffer> copies;  // copy_inputs: where the graph reads its inputs
  };

  void capture(ForwardContext& context,
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
