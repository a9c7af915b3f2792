#pragma once

#include <cstdint>
#include <span>

namespace reprise::speculative {

/// Proposes draft tokens. A wrong draft costs time and never changes an answer, so a drafter may
/// guess in any way. Belongs to one thread.
class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  /// Writes guesses of the tokens after `token_ids` (the prompt and the output so far) to the front
  /// of `drafts`, and returns their number. Called once per request and step, so it must not
  /// allocate.
  [[nodiscard]] virtual int propose(std::span<const int32_t> token_ids,
                                    std::span<int32_t> drafts) = 0;
};

}  // namespace reprise::speculative
