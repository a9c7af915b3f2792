#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "reprise/structured_output/automaton.h"

namespace reprise::structured_output {

/// A text that an automaton accepts: the inside of a JSON string, or a part of a plain answer. A
/// JSON string ends with its quote. A plain text ends where the automaton accepts and the text
/// cannot continue, or where the next part begins.
struct TextLeaf {
  std::shared_ptr<const Automaton> automaton;
  bool is_json = true;
  /// Whether \u and \/ are allowed in a JSON string. Without them each text has one spelling.
  bool allows_all_escapes = false;
  /// What may follow a plain text.
  enum class After : uint8_t {
    nothing,   // it ends the answer
    at_end,    // another part, but only where the text itself cannot continue
    anywhere,  // something, wherever the automaton accepts
  };
  After after = After::nothing;
  /// Limits on the number of characters that a counter enforces; the automaton is then smooth.
  int64_t least = 0;
  std::optional<int64_t> most;

  [[nodiscard]] bool is_counted() const { return least > 0 || most.has_value(); }
};

/// The part of a text that is written.
struct TextState {
  uint32_t state = 0;    // of the automaton
  uint32_t partial = 0;  // bytes of an incomplete character or escape; 0: none
  uint32_t length = 0;   // characters that have begun

  friend bool operator==(const TextState&, const TextState&) = default;
};

enum class TextStep : uint8_t { refused, inside, closed };

/// Takes one byte. `at` is undefined if the byte is refused.
[[nodiscard]] TextStep take_byte(const TextLeaf& leaf, TextState& at, uint8_t byte);
/// Whether the text may end here; for a JSON string, with its quote.
[[nodiscard]] bool may_end(const TextLeaf& leaf, const TextState& at);
/// Whether masks for this place are worth keeping, which they are not in the middle of a character.
[[nodiscard]] bool is_at_usual_place(const TextState& at);

}  // namespace reprise::structured_output
