#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/verify/capture_verifier.h"
#include "reprise/cudagraph/verify/captured_work.h"
#include "reprise/cudagraph/verify/memory_map.h"
#include "reprise/cudagraph/verify/verify_graphs.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/models/parameters.h"
#include "reprise/runner/execution.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/tensor.h"

namespace reprise::runner {

/// Connects the captures of a runner with the verifier: names the runner's memory, and turns the
/// nodes of graphs into addresses and sizes. With VerifyGraphs::off it only keeps the names.
///
/// Life cycle: add_memory() and similar functions before the first capture; then for each key
/// begin_key(), the captures of the wrappers, and judge(). Belongs to the runner's thread.
class GraphVerification final : public cudagraph::CaptureObserver {
 public:
  /// `execution` must outlive this object.
  GraphVerification(cudagraph::VerifyGraphs level, Execution& execution) noexcept
      : level_(level), execution_(&execution), verifier_(memory_) {}
  GraphVerification(const GraphVerification&) = delete;
  GraphVerification& operator=(const GraphVerification&) = delete;

  [[nodiscard]] cudagraph::VerifyGraphs level() const noexcept { return level_; }
  [[nodiscard]] bool is_on() const noexcept { return level_ != cudagraph::VerifyGraphs::off; }
  /// Sets the level for keys that are captured from now on.
  void set_level(cudagraph::VerifyGraphs level) noexcept { level_ = level; }

  /// Adds memory that any key may use.
  void add_memory(std::string name, device::BufferView memory, cudagraph::MemoryRole role);
  void add_weights(const models::Parameters& parameters);
  void add_caches(const kv_cache::KvCacheTensors& cache, const kv_cache::StateCacheTensors& states);

  /// Called before a key is captured. `inputs`: the staged inputs of its batch, by ForwardInput.
  /// `path`: of its attention.
  void begin_key(std::span<const Tensor> inputs, const AttentionPath& path);
  /// Until end_second_capture(), captures are of the same key over another batch.
  void begin_second_capture() noexcept;
  void end_second_capture() noexcept { stage_ = Stage::idle; }
  void on_graph(const device::Graph& graph) override;
  void on_eager_results(std::span<const Tensor> results) override;
  void on_copied_inputs(std::span<const Tensor> copies) override;

  /// The regions of memory as they are now: the lasting ones, and those of the last key.
  [[nodiscard]] const cudagraph::MemoryMap& memory() const noexcept { return memory_; }

  /// Writes the verdict about the captured key to its record: a violation is the record's failure.
  void judge(cudagraph::CaptureRecord& record);

 private:
  enum class Stage : uint8_t { idle, first_capture, second_capture };

  void update_pools();
  void add_path(const AttentionPath& path);

  cudagraph::VerifyGraphs level_;
  Execution* execution_;
  std::vector<cudagraph::MemoryRegion> fixed_;  // all that does not grow
  size_t pool_bytes_ = 0;                       // of the pools that the map knows
  cudagraph::MemoryMap memory_;
  std::optional<cudagraph::Violation> overlap_;  // of two regions of the map
  cudagraph::CaptureVerifier verifier_;
  cudagraph::CapturedWork first_;  // strict: both captures of the key
  cudagraph::CapturedWork second_;
  std::vector<cudagraph::NodeUse> uses_;  // of one node
  Stage stage_ = Stage::idle;
  bool has_second_ = false;
  double seconds_ = 0;  // spent on the key
};

/// While the scope lives, an observer sees the captures of wrappers.
class ObserverScope {
 public:
  ObserverScope(cudagraph::CapturePermission& permission, cudagraph::CaptureObserver* observer)
      : permission_(permission) {
    permission_.set_observer(observer);
  }
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
  ~ObserverScope() { permission_.set_observer(nullptr); }

 private:
  cudagraph::CapturePermission& permission_;
};

/// While the scope lives, keys that already have a graph are captured again.
class SecondCapture {
 public:
  SecondCapture(cudagraph::CapturePermission& permission, GraphVerification& verification)
      : permission_(permission), verification_(verification) {
    permission_.set_repeats(true);
    verification_.begin_second_capture();
  }
  SecondCapture(const SecondCapture&) = delete;
  SecondCapture& operator=(const SecondCapture&) = delete;
  ~SecondCapture() {
    verification_.end_second_capture();
    permission_.set_repeats(false);
  }

 private:
  cudagraph::CapturePermission& permission_;
  GraphVerification& verification_;
};

}  // namespace reprise::runner
