#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/parallel/communicator.h"

namespace reprise::runner {

/// The keys of a capture plan by number. The numbers are the same on all ranks. If one rank can no
/// longer replay a key, the key is retired on all ranks, because a replay on some of them would
/// wait for the others.
class PlannedKeys {
 public:
  explicit PlannedKeys(const cudagraph::CudagraphDispatcher& dispatcher);

  /// -1: the key is not planned.
  [[nodiscard]] int32_t find(const cudagraph::PlannedKey& key) const noexcept;
  [[nodiscard]] const cudagraph::PlannedKey& key(int32_t index) const { return keys_.at(index); }
  [[nodiscard]] int32_t size() const noexcept { return static_cast<int32_t>(keys_.size()); }
  /// A number that identifies the set of keys that can be dispatched.
  [[nodiscard]] uint64_t digest(const cudagraph::CudagraphDispatcher& dispatcher) const noexcept;

 private:
  std::vector<cudagraph::PlannedKey> keys_;
};

/// The message from each rank of a data-parallel group to the others before a step; vLLM's
/// DPMetadata.
struct DPMetadata {
  int32_t num_tokens = 0;  // 0: this rank has no work
  int32_t num_reqs = 0;
  int32_t num_logits = 0;
  int32_t query_len = 0;
  int32_t is_uniform = 0;
  int32_t has_ragged_drafts = 0;
  int32_t retired_key = -1;  // this rank can no longer replay it
  /// Identifies the keys that can be dispatched. Ranks with the same keys decide alike.
  uint64_t live_keys = 0;
  /// The runtime mode of this rank's previous step.
  int32_t last_mode = 0;
  int32_t last_num_tokens = 0;
  uint64_t last_descriptor = 0;
};

/// The smallest batch into which the batches of all ranks fit: the most tokens, the most requests,
/// and uniform only if each batch is. Every rank pads its own batch to this one. nullopt: no rank
/// has work.
[[nodiscard]] std::optional<cudagraph::BatchFacts> merge_batches(
    std::span<const DPMetadata> of_ranks) noexcept;

/// The steps of a data-parallel group: engines with the same model, each with its own requests,
/// whose steps contain exchanges (shared experts) or that are asked to stay together. They run
/// their steps at the same time, with the same mode and the same padded size; a rank without work
/// runs a step with padding only.
///
/// Steps form waves. A wave begins when a rank gets work, and ends with the exchange in which no
/// rank has any. Between waves no rank exchanges anything. agree() belongs to the thread that runs
/// steps; the functions about waves are thread-safe.
class DataParallelSteps {
 public:
  explicit DataParallelSteps(parallel::Communicator& ranks) : ranks_(&ranks) {}
  /// `on_begin` tells the other ranks that this rank begins a wave; they call join_wave(). Set it
  /// before the first step.
  void set_on_begin(std::function<void(uint64_t wave)> on_begin) {
    on_begin_ = std::move(on_begin);
  }

  /// One exchange with all ranks. Afterwards all dispatchers have retired the keys that any rank
  /// can no longer replay; their numbers are in retired(). Returns the batch to which this step is
  /// padded; nullopt: no rank has work, and the wave is over. `batch` without tokens: this rank has
  /// no work. \throws RankError that names a rank whose keys or whose last step differ
  [[nodiscard]] std::optional<cudagraph::BatchFacts> agree(
      const cudagraph::BatchFacts& batch,
      const PlannedKeys& keys,
      cudagraph::CudagraphDispatcher& dispatcher);
  /// The keys that the last agree() retired.
  [[nodiscard]] std::span<const int32_t> retired() const noexcept { return retired_; }
  /// Keeps the decision of the step, which the next agree() compares.
  void keep(const cudagraph::Decision& decision) noexcept;
  /// Makes the next agree() retire this key on all ranks.
  void retire_later(int32_t key) { to_retire_.push_back(key); }

  /// Whether all ranks run steps now. Then this rank must run steps too, with or without work.
  [[nodiscard]] bool is_wave_running() const noexcept { return wanted_wave_ > ended_wave_; }
  void join_wave(uint64_t wave) noexcept;
  [[nodiscard]] parallel::Communicator& ranks() const noexcept { return *ranks_; }

 private:
  void begin_wave();
  void compare(std::span<const DPMetadata> all) const;

  parallel::Communicator* ranks_;
  std::function<void(uint64_t wave)> on_begin_;
  std::atomic<uint64_t> wanted_wave_ = 0;
  std::atomic<uint64_t> ended_wave_ = 0;
  std::deque<int32_t> to_retire_;
  std::vector<int32_t> retired_;
  DPMetadata mine_;
  uint64_t num_steps_ = 0;
};

}  // namespace reprise::runner
