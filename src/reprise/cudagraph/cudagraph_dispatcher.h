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

/// What the dispatcher knows about one scheduled batch.
struct BatchFacts {
  int32_t num_tokens = 0;
  int32_t num_reqs = 0;
  /// The result of is_uniform_decode(). The shape alone does not decide it: requests that still
  /// compute their prompts are not uniform decode.
  bool uniform = false;
  /// The tokens of each request of a uniform batch. 0 stands for the decode query length. A uniform
  /// batch with a query length that has no decode graphs is treated like any other batch.
  int32_t query_len = 0;
  /// The batch has only decodes, but with different numbers of draft tokens.
  bool ragged_drafts = false;
  int32_t num_active_loras = 0;
  /// The batch uses cascade attention (over a shared prefix), so it never runs FULL.
  bool cascade = false;
  /// Tokens at the start of all requests that are the same and computed already, in the same cache
  /// blocks. Dispatch does not read it: the rule of cascade attention does.
  int32_t common_prefix_len = 0;
  /// The batch contains outputs of an encoder (encoder-decoder models), so it never runs FULL.
  bool encoder_outputs = false;
  /// The number of rows of logits that the step needs. Graphs compute as many rows per request as
  /// the decode query length. The log-probabilities of a prompt need more rows; such a batch never
  /// runs FULL. If it needs more rows than max_num_seqs requests of the decode query length have,
  /// it runs eagerly. See docs/adr/0004.
  int32_t num_logits = 0;
  /// The modes that the caller permits or, with several ranks, that all ranks agreed on. NONE is
  /// always permitted.
  RuntimeModeSet allowed = RuntimeModeSet::all();
};

/// The chosen key and the reason. For NONE, the descriptor has only the number of tokens, without
/// padding.
struct Decision {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  DispatchReason reason = DispatchReason::not_initialised;

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// Everything from which the keys are computed. Equal options give equal keys and equal capture
/// plans on every rank.
struct DispatcherOptions {
  CudagraphMode mode = CudagraphMode::NONE;
  /// vllm_v1: pads a batch to a size of the token list, then looks for a key of exactly that size,
  /// as vLLM's first runner does. The other rules: each compatibility class (see LadderKind) has
  /// its own ladder. The dispatcher takes the first class that has a fitting key, and the smallest
  /// key that fits in that class.
  CaptureSizeRule rule = CaptureSizeRule::reprise;
  int32_t uniform_decode_query_len = 1;  // 1 + speculative tokens
  int32_t max_num_seqs = 1;
  std::vector<int32_t> mixed_capture_sizes;  // tokens, ascending
  // Tokens, ascending; rule vllm_v1 ignores it and takes sizes from mixed_capture_sizes.
  std::vector<int32_t> decode_capture_sizes;
  /// Further query lengths of uniform decode batches, for example 1 for steps without drafts. Rule
  /// vllm_v1 ignores them.
  std::vector<DecodeWidth> other_decode_widths;
  LoraOptions lora;
  bool specialize_lora = true;
  /// Sizes for which the compiler makes special programs. Padding must not change a batch of such a
  /// size.
  std::vector<int32_t> compile_sizes;
  /// Whether the model can run in pieces: as a split program, or by a capture that is interrupted
  /// at split points.
  bool piecewise_available = true;

  friend bool operator==(const DispatcherOptions&, const DispatcherOptions&) = default;
};

/// The keys of the capture plan with the same runtime mode and the same kind of batch. Warm-up
/// captures the groups in order. Within a group it captures the largest size first, so that smaller
/// graphs reuse the memory of larger ones.
struct CaptureGroup {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  bool uniform = false;
  std::vector<BatchDescriptor> descriptors;

  friend bool operator==(const CaptureGroup&, const CaptureGroup&) = default;
};

/// Why a key is taken out. Batches of a retired key get the next compatible key. Batches of a
/// quarantined key run eagerly, because a replay of the key gave wrong results without any error. A
/// dropped key did not pay: it is removed from the plan as if it had never been planned.
enum class Retirement : uint8_t { retired, quarantined, dropped };

/// The state of a planned key. Only captured keys are replayed.
enum class KeyState : uint8_t { planned, captured, retired, quarantined, dropped };

inline constexpr size_t kNumKeyStates = static_cast<size_t>(KeyState::dropped) + 1;

/// The name, for metrics and JSON.
[[nodiscard]] std::string_view to_string(KeyState state) noexcept;

struct KeyStatus {
  PlannedKey key;
  KeyState state = KeyState::planned;
  std::string reason;  // of a key that was taken out
};

/// Chooses the runtime mode and the key of each batch. Only the dispatcher knows which graphs
/// exist. It uses no device.
///
/// Life cycle: constructed (every batch runs NONE), then initialize_cudagraph_keys() (keys are
/// planned, none can be dispatched), then mark_captured() for each key during warm-up, then
/// dispatch() in every step. retire() may remove a key at any time; later batches then get the next
/// compatible key, or none (see Retirement). A second call of initialize_cudagraph_keys() drops all
/// keys; replan() keeps those that the new plan has too.
///
/// dispatch() is const, noexcept and O(1), and does not allocate. Several threads may call it at
/// once, if no other member runs meanwhile. All other members belong to one thread.
class CudagraphDispatcher {
 public:
  CudagraphDispatcher() = default;

  /// Plans the keys.
  /// \throws InvalidArgument if the options contradict each other: PIECEWISE although the model
  /// cannot run in pieces, a compile size that padding would change, or decode sizes that are no
  /// multiples of the query length
  void initialize_cudagraph_keys(const DispatcherOptions& options);

  /// Plans keys for other options, between two steps. Captured keys that the new plan has too stay
  /// captured. Keys that were taken out stay out, even if a plan in between did not have them.
  /// Returns the captured keys that the new plan does not have: they cannot be dispatched any more.
  /// \throws as initialize_cudagraph_keys(); then nothing has changed
  std::vector<PlannedKey> replan(const DispatcherOptions& options);

  /// The decision for one batch. It prefers FULL to PIECEWISE to NONE, then a key for uniform
  /// batches to a key for any batch (mode FULL_AND_FULL has both), then the smallest key that fits.
  /// Only captured keys are returned.
  [[nodiscard]] Decision dispatch(const BatchFacts& batch) const noexcept;

  /// The keys that warm-up has to capture, in order: PIECEWISE before FULL, mixed batches before
  /// uniform ones, and then the largest first. The plan depends only on the options and on dropped
  /// keys, which are not in it. The plan is empty before initialisation and for mode NONE.
  [[nodiscard]] std::vector<CaptureGroup> capture_plan() const;

  /// The key that dispatch() would prefer for this batch if its graph existed: planned, not
  /// captured and not retired. nullopt: the best key of the batch is captured already, or no key
  /// fits. For engines that capture a graph when a batch first needs it.
  [[nodiscard]] std::optional<PlannedKey> uncaptured_key(const BatchFacts& batch) const noexcept;

  /// Allows dispatch() to return this key. \pre the key is planned and not retired
  void mark_captured(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor);
  /// Calls mark_captured() for every key that is not retired. For `reprise explain` and tests.
  void mark_all_captured();
  /// Forbids dispatch() to return this key. Returns false if the key is unknown or already retired.
  bool retire(CudagraphRuntimeMode mode,
              const BatchDescriptor& descriptor,
              std::string reason,
              Retirement retirement = Retirement::retired);
  /// Plans a captured or taken out key anew: dispatch() does not return it until it is captured
  /// again. Returns false if the key is unknown.
  bool release(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor);

  [[nodiscard]] bool is_initialised() const noexcept { return initialised_; }
  [[nodiscard]] CudagraphMode mode() const noexcept { return options_.mode; }
  [[nodiscard]] const DispatcherOptions& options() const noexcept { return options_; }

  [[nodiscard]] bool is_captured(CudagraphRuntimeMode mode,
                                 const BatchDescriptor& descriptor) const noexcept;
  /// The planned keys of one mode in plan order, including those that were taken out.
  [[nodiscard]] std::vector<BatchDescriptor> keys(CudagraphRuntimeMode mode) const;
  /// All keys of the plan and their states, in plan order.
  [[nodiscard]] std::vector<KeyStatus> key_states() const;
  /// The first key in plan order that is neither captured nor taken out.
  [[nodiscard]] std::optional<PlannedKey> next_planned() const noexcept;
  /// The largest number of tokens in any planned key that was not dropped; 0 if there is no key.
  [[nodiscard]] int32_t largest_size() const noexcept { return largest_tokens_; }

  /// The reason of a decision as a sentence with its numbers; for a retired key, also why it was
  /// retired. Allocates, so steps do not call it.
  [[nodiscard]] std::string describe(const BatchFacts& batch, const Decision& decision) const;

 private:
  /// The compatibility classes. All keys of a class serve the same batches: any batch (FULL), any
  /// batch (PIECEWISE), uniform decode batches (FULL). The class kFullUniform + i has the query
  /// length decode_query_lens_[i].
  using LadderKind = int32_t;
  static constexpr LadderKind kFullGeneral = 0;
  static constexpr LadderKind kPiecewise = 1;
  static constexpr LadderKind kFullUniform = 2;
  struct Key {
    CudagraphRuntimeMode mode;
    BatchDescriptor descriptor;
    LadderKind kind;
    int32_t lora_case;
    // The largest batch that the key serves: in tokens, or in requests for uniform decode.
    int32_t need;
    KeyState state = KeyState::planned;
    std::string retired_because;

    [[nodiscard]] bool is_retired() const noexcept {
      return state != KeyState::planned && state != KeyState::captured;
    }
  };
  /// All keys of one class and one LoRA case. The two tables are indexed by need (tokens or
  /// requests, see Key::need) and hold key indices, -1 for none, so a step reads one entry instead
  /// of searching.
  struct Ladder {
    std::vector<int32_t> rungs;    // key indices, by ascending need
    std::vector<int32_t> planned;  // by need: the smallest planned key that fits, not dropped
    std::vector<int32_t> live;     // by need: the smallest captured key that fits
  };
  struct LookUp {
    int32_t planned = -1;
    int32_t live = -1;
  };

  [[nodiscard]] size_t ladder_index(LadderKind kind, int32_t lora_case) const noexcept {
    const size_t num_kinds = static_cast<size_t>(kFullUniform) + decode_query_lens_.size();
    return static_cast<size_t>(lora_case) * num_kinds + static_cast<size_t>(kind);
  }
  [[nodiscard]] Ladder& ladder(LadderKind kind, int32_t lora_case) noexcept {
    return ladders_[ladder_index(kind, lora_case)];
  }
  [[nodiscard]] LookUp look_up(LadderKind kind, int32_t lora_case, int32_t need) const noexcept;
  [[nodiscard]] LookUp look_up_full(const BatchFacts& batch, int32_t lora_case) const noexcept;
  [[nodiscard]] LookUp look_up_piecewise(const BatchFacts& batch, int32_t lora_case) const noexcept;
  /// The index in decode_query_lens_ of the batch's query length. -1 if no graphs for uniform
  /// decode batches serve the batch.
  [[nodiscard]] int32_t decode_width_of(const BatchFacts& batch) const noexcept;
  [[nodiscard]] bool takes_decode_routine(const BatchFacts& batch) const noexcept {
    return decode_width_of(batch) >= 0;
  }
  [[nodiscard]] CudagraphRuntimeMode routine_of(const BatchFacts& batch) const noexcept {
    return takes_decode_routine(batch) ? decode_mode(options_.mode) : mixed_mode(options_.mode);
  }
  [[nodiscard]] const std::vector<int32_t>& decode_sizes_of(int32_t width) const noexcept {
    return width == 0 ? options_.decode_capture_sizes
                      : options_.other_decode_widths[static_cast<size_t>(width) - 1].capture_sizes;
  }
  [[nodiscard]] bool is_quarantined(LookUp found) const noexcept {
    return found.planned >= 0 &&
           keys_[static_cast<size_t>(found.planned)].state == KeyState::quarantined;
  }
  [[nodiscard]] DispatchReason piecewise_reason(const BatchFacts& batch,
                                                LookUp full,
                                                LookUp piecewise) const noexcept;
  [[nodiscard]] DispatchReason relaxed_reason(const BatchFacts& batch, LookUp full) const noexcept;
  [[nodiscard]] DispatchReason eager_reason(const BatchFacts& batch,
                                            LookUp full,
                                            LookUp piecewise) const noexcept;
  /// Whether graphs of `num_reqs` requests compute all rows of logits that the batch needs.
  [[nodiscard]] bool has_rows(const BatchFacts& batch, int32_t num_reqs) const noexcept {
    return batch.num_logits <= int64_t{num_reqs} * options_.uniform_decode_query_len;
  }
  [[nodiscard]] bool follows_vllm_v1() const noexcept { return is_of_first_runner(options_.rule); }

  void plan_mixed_keys(int32_t lora_case);
  void plan_decode_keys(int32_t lora_case, int32_t width);
  void build_tables(Ladder& ladder);
  void refresh_live_table(Ladder& ladder) const;
  [[nodiscard]] int32_t find_key(CudagraphRuntimeMode mode,
                                 const BatchDescriptor& descriptor) const noexcept;

  DispatcherOptions options_;
  std::vector<int32_t> decode_query_lens_;  // uniform_decode_query_len, then the other widths
  LoraCases lora_cases_;
  std::vector<Key> keys_;       // in plan order
  std::vector<Key> taken_out_;  // keys of earlier plans that are not in keys_
  std::vector<Ladder> ladders_;
  int32_t largest_tokens_ = 0;
  bool initialised_ = false;
};

/// Whether a scheduled batch is a uniform decode batch: every request has exactly the decode query
/// length, and no request still computes its prompt. The second condition matters because chunks of
/// a prompt may happen to have that length. `forced` overrides the result (dummy runs and
/// captures).
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
