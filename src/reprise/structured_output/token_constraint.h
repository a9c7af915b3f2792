#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>

namespace reprise::structured_output {

/// The state of a compiled spec after the tokens of one answer; it decides which tokens may follow.
/// One object per answer; one thread uses it at a time. No token is ever taken back: a preempted
/// request keeps its tokens, and so its state. The functions throw InvalidArgument when the answer
/// needs more work or memory than the constraint may use; the answer then cannot go on.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Bit i % 32 of word i / 32 allows token i as the next one. Ids beyond the span are not allowed.
  /// An empty span allows every token. Valid until the next call.
  [[nodiscard]] virtual std::span<const uint32_t> allowed_tokens() = 0;
  /// Continues the answer with this token. \return false when the token is not allowed; the state
  /// is then unchanged
  [[nodiscard]] virtual bool accept(int32_t token_id) = 0;
  /// True if only an end-of-text token can follow, or if it has already come.
  [[nodiscard]] virtual bool is_complete() = 0;

  /// The answer's state for the thread that computes steps. A ConstraintWorker calls the functions
  /// above and leaves their results here.
  struct Turn {
    enum class State : uint8_t {
      idle,     // nothing was asked for yet
      working,  // the worker is using the constraint and will write the results
      ready,    // the thread that computes steps has them
    };
    std::atomic<State> state = State::idle;

    // The results for the next token.
    std::span<const uint32_t> allowed;  // of allowed_tokens()
    bool is_complete = false;
    std::exception_ptr problem;  // the answer cannot go on
    // The expected processor time of the next results; empty before the first ones.
    std::optional<std::chrono::nanoseconds> expected_cost;
    // The nanoseconds that the first results took in any answer with this spec; negative: there
    // were none yet. Null: the constraint shares the figure with no other answer.
    std::shared_ptr<std::atomic<int64_t>> first_cost_of_spec;

    // The members below are only for the thread that computes steps.
    bool is_quick = true;  // the results are expected soon
    int64_t num_accepted = 0;
    // The last token was sampled and is held until the results are ready.
    bool has_held_token = false;
  };
  Turn turn;
};

[[nodiscard]] inline bool contains(std::span<const uint32_t> mask, int32_t token_id) noexcept {
  const auto word = static_cast<size_t>(token_id) / 32;
  return word < mask.size() && ((mask[word] >> (static_cast<uint32_t>(token_id) % 32)) & 1U) != 0;
}

}  // namespace reprise::structured_output
