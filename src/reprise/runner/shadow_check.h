#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/device/device.h"
#include "reprise/runner/graph_bisect.h"
#include "reprise/runner/step_memory.h"

namespace reprise::runner {

struct ShadowCheckOptions {
  /// The share of replayed steps that are checked: 0 (none) to 1 (all).
  double rate = 0;
  /// The folder for a report about each difference; empty: no reports are written.
  std::filesystem::path report_folder;
  /// The facts about the engine in a report: version, model, configuration.
  Json about = Json::object();
  /// Called with a message for people about each difference, on the runner's thread. May be empty.
  std::function<void(std::string_view)> log;
};

/// The first place where a replay gave other bits than the eager run.
struct StepDifference {
  StepOutput output = StepOutput::inputs;
  int64_t tensor = 0;    // see StepRegion
  int64_t row = 0;       // see StepRegion
  int64_t element = 0;   // within the row
  std::string replayed;  // the element as number and bits
  std::string eager;
};

/// "logits, row 3, element 17: replayed 0.25 (0x3e800000), eager 0.5 (0x3f000000)".
[[nodiscard]] std::string to_string(const StepDifference& difference);

/// A key that may no longer be replayed, because a replay of it was wrong.
struct QuarantinedKey {
  cudagraph::CudagraphRuntimeMode mode = cudagraph::CudagraphRuntimeMode::NONE;
  cudagraph::BatchDescriptor descriptor;
  std::string difference;        // empty: somebody asked for it
  std::string wrong_node;        // the first wrong node; empty: no search was made
  std::filesystem::path report;  // empty: none was written
};

/// Compares replayed steps with eager runs of the same steps, bit for bit. The runner stages a
/// batch once and then runs it twice:
///
///   save_step(), replay, keep_replay(), eager run, compare()
///
/// keep_replay() also puts back what the replay changed, so the eager run begins with the same
/// inputs, cache rows and states. Whatever compare() finds, the memory then holds what the eager
/// run left.
///
/// With rate 0 it is off: it chooses no step and has no memory. Otherwise it owns memory for three
/// copies of the largest captured step, which it takes while keys are captured. A check allocates
/// nothing. It waits for the device. Belongs to the runner's thread, except where a function says
/// otherwise.
class ShadowCheck {
 public:
  /// `device` and `stream` must outlive this object.
  ShadowCheck(ShadowCheckOptions options,
              device::Device& device,
              device::Stream& stream,
              StepMemory memory);
  ShadowCheck(const ShadowCheck&) = delete;
  ShadowCheck& operator=(const ShadowCheck&) = delete;

  [[nodiscard]] bool is_on() const noexcept { return options_.rate > 0; }
  /// Changes the share of checked steps, and the facts about the engine in reports. A share of 0
  /// gives the memory back; after that, a larger share needs all keys to be captured again.
  void change(double rate, Json about);

  /// Allocates memory for steps of `num_tokens` tokens and these results, unless there is enough.
  /// Called for each graph that is captured. \throws OutOfMemory
  void reserve(int32_t num_tokens, int32_t num_reqs, std::span<const Tensor> outputs);

  /// Whether the next replay is checked. Counts replays and hashes their number. So the choice is
  /// the same in each run and on each rank, and no repeating pattern of batches escapes the checks.
  [[nodiscard]] bool chooses_step() noexcept;

  void save_step();
  /// `outputs`: of the replay.
  void keep_replay(std::span<const Tensor> outputs, int32_t num_logits);
  /// `outputs`: the results of the eager run.
  [[nodiscard]] std::optional<StepDifference> compare(std::span<const Tensor> outputs,
                                                      int32_t num_logits);
  /// Restores the memory that the step had before it ran, after keep_replay().
  void restore();

  /// The launches recorded by captures, for a later search for the first wrong node.
  [[nodiscard]] CapturedLaunches& captured() noexcept { return captured_; }
  [[nodiscard]] const CapturedLaunches& captured() const noexcept { return captured_; }
  /// Adds a key to keys(). If a replay differed, also writes a log line.
  void add(QuarantinedKey key);
  /// Takes a key out of the list of quarantined keys.
  void remove(const cudagraph::PlannedKey& key);

  [[nodiscard]] const ShadowCheckOptions& options() const noexcept { return options_; }
  [[nodiscard]] const StepMemory& memory() const noexcept { return memory_; }
  /// Replayed steps that were compared. Thread-safe.
  [[nodiscard]] uint64_t num_checks() const noexcept {
    return num_checks_.load(std::memory_order_relaxed);
  }
  /// Those that differed. Thread-safe.
  [[nodiscard]] uint64_t num_differences() const noexcept {
    return num_differences_.load(std::memory_order_relaxed);
  }
  /// A copy of all quarantined keys. Thread-safe.
  [[nodiscard]] std::vector<QuarantinedKey> keys() const;
  /// A number that changes whenever keys() changes. Thread-safe.
  [[nodiscard]] uint64_t keys_revision() const noexcept {
    return keys_revision_.load(std::memory_order_relaxed);
  }
  /// Bytes of device memory for the copies.
  [[nodiscard]] size_t bytes() const noexcept;

 private:
  /// Copies the regions one after the other to or from `packed`. Returns the bytes.
  size_t pack_changed(std::byte* packed);
  void unpack_changed(const std::byte* packed);
  size_t pack_results(std::byte* packed, std::span<const Tensor> outputs, int32_t num_logits);
  void copy(std::byte* to, const std::byte* from, size_t bytes);
  [[nodiscard]] const std::byte* on_host(const device::Buffer& buffer,
                                         std::vector<std::byte>& copy,
                                         size_t bytes);

  ShadowCheckOptions options_;
  device::Device* device_;
  device::Stream* stream_;
  StepMemory memory_;
  bool is_host_accessible_;
  device::Buffer before_;  // inputs, cache rows and states before the step
  // The same memory after the replay, and the replay's results.
  device::Buffer replayed_;
  device::Buffer eager_;                  // the same after the eager run
  std::vector<std::byte> host_replayed_;  // used only if the host cannot read the device's memory
  std::vector<std::byte> host_eager_;
  CapturedLaunches captured_;
  uint64_t num_replays_ = 0;
  std::atomic<uint64_t> num_checks_{0};
  std::atomic<uint64_t> num_differences_{0};
  std::atomic<uint64_t> keys_revision_{0};
  mutable std::mutex mutex_;
  std::vector<QuarantinedKey> keys_;  // guarded by mutex_
};

}  // namespace reprise::runner
