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
  /// True when only an end-of-text token can follow, or when it has come.
  [[nodiscard]] virtual bool is_complete() = 0;

  /// The state of the answer as steps see it. A ConstraintWorker calls the functions above and
  /// leaves their results here.
  struct Turn {
    enum class State : uint8_t {
      idle,     // nothing was asked for yet
      working,  // the worker has the constraint and the results
      ready,    // the thread that computes steps has them
    };
    std::atomic<State> state = State::idle;

    // The results for the next token.
    std::span<const uint32_t> allowed;  // of allowed_tokens()
    bool is_complete = false;
    std::exception_ptr problem;  // the answer cannot go on
    // Processor time of the next results; empty before the first ones.
    std::optional<std::chrono::nanoseconds> expected_cost;
    // The same, in nanoseconds, of the first results of any answer with this spec; negative: there
    // was none. Null: the constraint shares it with no other answer.
    std::shared_ptr<std::atomic<int64_t>> first_cost_of_spec;

    // Only for the thread that computes steps.
    bool is_quick = true;  // the results are expected soon
    int64_t num_accepted = 0;
    bool has_held_token = false;  // the last token was sampled and waits for its results
  };
  Turn turn;
};

[[nodiscard]] inline bool contains(std::span<const uint32_t> mask, int32_t token_id) noexcept {
  const auto word = static_cast<size_t>(token_id) / 32;
  return word < mask.size() && ((mask[word] >> (static_cast<uint32_t>(token_id) % 32)) & 1U) != 0;
}

}  // namespace reprise::structured_output
