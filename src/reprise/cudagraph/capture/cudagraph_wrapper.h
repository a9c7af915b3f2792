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

/// Whether wrappers may capture. Open during warm-up, sealed before the first request: a capture on
/// the request path is a bug. Shared by all wrappers of one model; outlives them.
class CapturePermission {
 public:
  void open() noexcept { open_ = true; }
  void seal() noexcept { open_ = false; }
  [[nodiscard]] bool is_open() const noexcept { return open_; }

 private:
  bool open_ = false;
};

/// A key reached a wrapper that has no graph for it and may not make one.
class UnknownKeyError : public Error {
 public:
  using Error::Error;
};

struct CudagraphWrapperOptions {
  /// Capture breaks at split points (PIECEWISE without a compiler).
  bool break_at_split_points = false;
  /// Inputs are copied into buffers of the wrapper before each replay, for callers that cannot keep
  /// their addresses (`cudagraph_copy_inputs`; PIECEWISE only).
  bool copy_inputs = false;
};

struct CudagraphWrapperCounters {
  uint64_t captures = 0;
  uint64_t replays = 0;
  uint64_t pass_throughs = 0;
};

/// Gives a callable the ability to be captured once per batch descriptor and replayed ever after.
///
/// It is bound to one runtime mode and trusts the context: another mode = plain call (which is what
/// makes nesting FULL around PIECEWISE work), known descriptor = replay, unknown descriptor =
/// capture while the permission is open. It decides nothing itself.
///
/// Recorded outputs do not own their memory: they are valid until the next work that uses the same
/// pool. The capturing call records without running, so the contents of its outputs mean nothing.
/// One wrapper belongs to one thread.
class CudagraphWrapper {
 public:
  /// `outputs` is cleared and filled by the callable.
  using Runnable = std::function<void(
      ForwardContext&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs)>;

  /// `device` and `permission` must outlive the wrapper. \pre mode is FULL or PIECEWISE
  CudagraphWrapper(Runnable runnable,
                   CudagraphRuntimeMode mode,
                   device::Device& device,
                   const CapturePermission& permission,
                   CudagraphWrapperOptions options = {});

  /// \throws StaleAddressError before anything is launched, when an input or a binding of the
  /// context is not where it was recorded; UnknownKeyError after sealing; device::CaptureError and
  /// whatever the callable throws while capturing (the key is then unknown again).
  void operator()(ForwardContext& context,
                  std::span<const Tensor> inputs,
                  std::vector<Tensor>& outputs);

  /// Forgets one key, or all: their graphs are destroyed.
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
  /// Of all keys.
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
