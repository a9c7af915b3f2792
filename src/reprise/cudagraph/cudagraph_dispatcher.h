#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/cudagraph/cudagraph_mode.h"
#include "reprise/cudagraph/dispatch_reason.h"
#include "reprise/cudagraph/lora_cases.h"

namespace reprise::cudagraph {

/// A set of runtime modes, one bit each.
class RuntimeModeSet {
 public:
  static constexpr RuntimeModeSet all() noexcept { return RuntimeModeSet(0b111); }
  static constexpr RuntimeModeSet only(CudagraphRuntimeMode mode) noexcept {
    return RuntimeModeSet(bit(mode));
  }
  [[nodiscard]] constexpr RuntimeModeSet with(CudagraphRuntimeMode mode) const noexcept {
    return RuntimeModeSet(bits_ | bit(mode));
  }
  [[nodiscard]] constexpr RuntimeModeSet without(CudagraphRuntimeMode mode) const noexcept {
    return RuntimeModeSet(bits_ & ~bit(mode));
  }
  [[nodiscard]] constexpr bool contains(CudagraphRuntimeMode mode) const noexcept {
    return (bits_ & bit(mode)) != 0;
  }
  friend constexpr bool operator==(RuntimeModeSet, RuntimeModeSet) = default;

 private:
  explicit constexpr RuntimeModeSet(unsigned bits) noexcept : bits_(static_cast<uint8_t>(bits)) {}
  static constexpr unsigned bit(CudagraphRuntimeMode mode) noexcept {
    return 1U << static_cast<unsigned>(mode);
  }
  uint8_t bits_;
};

/// The dispatcher's input for one scheduled batch: integers and flags only.
struct BatchFacts {
  int32_t num_tokens = 0;
  int32_t num_reqs = 0;
  /// The result of is_uniform_decode, which looks at the state of the requests and not only at the
  /// shape.
  bool uniform = false;
  int32_t num_active_loras = 0;
  /// The batch uses shared-prefix attention, so it never runs FULL.
  bool cascade = false;
  /// The step is an encoder-decoder step that carries encoder outputs, so it never runs FULL.
  bool encoder_outputs = false;
  /// Rows of logits that the step wants. With more than one per request (log-probabilities of the
  /// prompt) the batch never runs FULL; with more than max_num_seqs it runs eagerly. docs/adr/0004
  int32_t num_logits = 0;
  /// The modes that other ranks agreed on or that the caller permits. NONE is always possible.
  RuntimeModeSet allowed = RuntimeModeSet::all();
};

/// A key and the reason for it. For NONE the descriptor holds only the real token count, without
/// padding.
struct Decision {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  DispatchReason reason = DispatchReason::not_initialised;

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// All inputs of the key sets. Equal options give equal keys and plans on every rank.
struct DispatcherOptions {
  CudagraphMode mode = CudagraphMode::NONE;
  /// vllm: the behaviour of vLLM's dispatcher, one token list for both routines. reprise, atom: one
  /// ladder per compatibility class; the smallest key that fits in the first class that has one.
  CaptureSizeRule rule = CaptureSizeRule::reprise;
  int32_t uniform_decode_query_len = 1;  // 1 + speculative tokens
  int32_t max_num_seqs = 1;
  std::vector<int32_t> mixed_capture_sizes;   // tokens, ascending
  std::vector<int32_t> decode_capture_sizes;  // tokens, ascending; rule vllm derives its own
  LoraOptions lora;
  bool specialize_lora = true;
  /// Sizes that the compiler specialises; padding must not change them.
  std::vector<int32_t> compile_sizes;
  /// The model can run in pieces: through split compilation, or a capture that breaks at split
  /// points.
  bool piecewise_available = true;

  friend bool operator==(const DispatcherOptions&, const DispatcherOptions&) = default;
};

/// A group of captures that share routine and kind. Warm-up captures the groups in order, and in
/// each group the largest size first, so that smaller graphs reuse the memory of larger ones.
struct CaptureGroup {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  bool uniform = false;
  std::vector<BatchDescriptor> descriptors;

  friend bool operator==(const CaptureGroup&, const CaptureGroup&) = default;
};

/// The single place that knows which graphs exist and that gives a batch its runtime mode. It does
/// not use a device.
///
/// Life-cycle: constructed (every batch NONE) -> initialize_cudagraph_keys (keys are planned, none
/// dispatchable) -> mark_captured per key during warm-up -> dispatch on every step. retire()
/// removes a key at any time; later batches relax to the next compatible key. A second
/// initialisation forgets all keys.
///
/// dispatch() is const, noexcept, O(1) and does not allocate; it may run on any number of threads
/// as long as no other member runs at the same time. The other members belong to one thread.
class CudagraphDispatcher {
 public:
  CudagraphDispatcher() = default;

  /// Plans the key sets.
  /// \throws InvalidArgument when the options contradict each other (PIECEWISE without pieces, a
  /// compile size that padding would change, decode sizes that the query length does not divide).
  void initialize_cudagraph_keys(const DispatcherOptions& options);

  /// The decision for one batch: FULL before PIECEWISE before NONE, a specific key before a general
  /// one, the smallest key that fits. Never returns a key that is not captured.
  [[nodiscard]] Decision dispatch(const BatchFacts& batch) const noexcept;

  /// The keys that warm-up has to capture, in order: PIECEWISE before FULL, and the largest first
  /// in each.
  /// function of the options; empty before initialisation and for mode NONE.
  [[nodiscard]] std::vector<CaptureGroup> capture_plan() const;

  /// From now on the key may be dispatched. \pre the key is in the plan and was not retired.
  void mark_captured(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor);
  /// Calls mark_captured for every key that was not retired; used by explain and by tests.
  void mark_all_captured();
  /// From now on the key is never dispatched. Returns false when the key is unknown or already
  /// retired.
  bool retire(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor, std::string reason);

  [[nodiscard]] bool is_initialised() const noexcept { return initialised_; }
  [[nodiscard]] CudagraphMode mode() const noexcept { return options_.mode; }
  [[nodiscard]] const DispatcherOptions& options() const noexcept { return options_; }

  [[nodiscard]] bool is_captured(CudagraphRuntimeMode mode,
                                 const BatchDescriptor& descriptor) const noexcept;
  /// Planned keys of one mode, retired ones included, in plan order.
  [[nodiscard]] std::vector<BatchDescriptor> keys(CudagraphRuntimeMode mode) const;
  /// The largest token count that any planned key covers; 0 when there is no key.
  [[nodiscard]] int32_t largest_size() const noexcept { return largest_tokens_; }

  /// The reason as a sentence with its numbers and, for a retired key, the recorded cause.
  /// Allocates: not for the step path.
  [[nodiscard]] std::string describe(const BatchFacts& batch, const Decision& decision) const;

 private:
  enum class KeyState : uint8_t { planned, captured, retired };
  /// The compatibility classes: each one says which batches its keys can serve.
  enum LadderKind : uint8_t { kFullUniform, kFullGeneral, kPiecewise, kNumLadderKinds };
  struct Key {
    CudagraphRuntimeMode mode;
    BatchDescriptor descriptor;
    LadderKind kind;
    int32_t lora_case;
    int32_t need;  // the largest need it serves, in tokens, or in requests for decode ladders
    KeyState state = KeyState::planned;
    std::string retired_because;
  };
  /// All keys of one class and LoRA case, as dense tables from need to key index (-1 = none), so
  /// that the step path does not search.
  struct Ladder {
    std::vector<int32_t> rungs;    // key indices, ascending by need
    std::vector<int32_t> planned;  // by need: the key that should serve it
    std::vector<int32_t> live;     // by need: the captured key that serves it
  };
  struct LookUp {
    int32_t planned = -1;
    int32_t live = -1;
  };

  [[nodiscard]] Ladder& ladder(LadderKind kind, int32_t lora_case) noexcept {
    return ladders_[static_cast<size_t>(lora_case) * kNumLadderKinds + kind];
  }
  [[nodiscard]] LookUp look_up(LadderKind kind, int32_t lora_case, int32_t need) const noexcept;
  [[nodiscard]] LookUp look_up_full(const BatchFacts& batch, int32_t lora_case) const noexcept;
  [[nodiscard]] LookUp look_up_piecewise(const BatchFacts& batch, int32_t lora_case) const noexcept;
  [[nodiscard]] bool takes_decode_routine(const BatchFacts& batch) const noexcept {
    return batch.uniform && separate_routine(options_.mode);
  }
  [[nodiscard]] CudagraphRuntimeMode routine_of(const BatchFacts& batch) const noexcept {
    return batch.uniform ? decode_mode(options_.mode) : mixed_mode(options_.mode);
  }
  [[nodiscard]] DispatchReason relaxed_reason(const BatchFacts& batch, LookUp full) const noexcept;
  [[nodiscard]] DispatchReason eager_reason(const BatchFacts& batch,
                                            LookUp full,
                                            LookUp piecewise) const noexcept;
  [[nodiscard]] bool follows_vllm_rule() const noexcept {
    return options_.rule == CaptureSizeRule::vllm;
  }

  void plan_mixed_keys(int32_t lora_case);
  void plan_decode_keys(int32_t lora_case);
  void build_tables(Ladder& ladder) const;
  void refresh_live_table(Ladder& ladder) const;
  [[nodiscard]] int32_t find_key(CudagraphRuntimeMode mode,
                                 const BatchDescriptor& descriptor) const noexcept;

  DispatcherOptions options_;
  LoraCases lora_cases_;
  std::vector<Key> keys_;  // plan order
  std::vector<Ladder> ladders_;
  int32_t largest_tokens_ = 0;
  bool initialised_ = false;
};

/// Whether a scheduled batch is a uniform decode batch: every request has exactly the decode query
/// length and none of them still computes its prompt. The shape alone is not enough: prompt chunks
/// of that length would replay decode graphs. `forced` overrides the result (dummy runs, capture).
[[nodiscard]] constexpr bool is_uniform_decode(int32_t max_query_len,
                                               int32_t uniform_decode_query_len,
                                               int32_t num_tokens,
                                               int32_t num_reqs,
                                               bool any_prefill,
                                               std::optional<bool> forced = std::nullopt) noexcept {
  if (forced) return *forced;
  return num_reqs > 0 && !any_prefill && max_query_len == uniform_decode_query_len &&
         int64_t{num_tokens} == int64_t{max_query_len} * num_reqs;
}

}  // namespace reprise::cudagraph
