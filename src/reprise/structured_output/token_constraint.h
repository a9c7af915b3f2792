#pragma once

#include <cstdint>
#include <span>

namespace reprise::structured_output {

/// Which tokens one answer may still have: the state of a compiled spec after the tokens so far.
/// One per answer, one thread. Nothing is ever taken back: a request that is preempted keeps its
/// tokens, and so its state.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Bit i % 32 of word i / 32: token i may come next; ids beyond the span may not. Empty: any may.
  /// Valid until the next call.
  [[nodiscard]] virtual std::span<const uint32_t> allowed_tokens() = 0;
  /// The answer goes on with this token. \return false when it may not; then nothing changed
  [[nodiscard]] virtual bool accept(int32_t token_id) = 0;
  /// Nothing but an end-of-text token can follow, or one has come.
  [[nodiscard]] virtual bool is_complete() = 0;
};

[[nodiscard]] inline bool contains(std::span<const uint32_t> mask, int32_t token_id) noexcept {
  const auto word = static_cast<size_t>(token_id) / 32;
  return word < mask.size() && ((mask[word] >> (static_cast<uint32_t>(token_id) % 32)) & 1U) != 0;
}

}  // namespace reprise::structured_output
