#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/structured_output/regex_terms.h"

namespace reprise::structured_output {

/// A deterministic automaton over code points. State 0 is dead; from every other state some text
/// leads to acceptance. A value; immutable after group_states().
class Automaton {
 public:
  static constexpr uint32_t kDead = 0;

  /// The automaton of the texts that match `term` when the end mark follows them.
  /// \throws InvalidArgument when it needs too many states
  [[nodiscard]] static Automaton of(RegexTerms& terms, TermId term);

  [[nodiscard]] uint32_t start() const { return start_; }
  [[nodiscard]] uint32_t step(uint32_t state, uint32_t code_point) const {
    return next_[state * num_classes_ + class_of(code_point)];
  }
  [[nodiscard]] bool accepts(uint32_t state) const { return rest_[state] == 0; }
  /// The smallest number of characters that must still follow.
  [[nodiscard]] uint32_t rest(uint32_t state) const { return rest_[state]; }
  /// Whether a character can follow.
  [[nodiscard]] bool goes_on(uint32_t state) const { return goes_on_[state]; }
  /// Whether some code point from `first` to `last` leads to a state with a rest of at most `rest`.
  [[nodiscard]] bool can_step(uint32_t state, uint32_t first, uint32_t last, uint32_t rest) const;
  [[nodiscard]] bool matches(const std::vector<uint32_t>& code_points) const;

  /// Whether from every state all lengths from rest() on are possible. Then a counter beside the
  /// automaton enforces limits on the length exactly, and they need no states.
  [[nodiscard]] bool is_smooth() const { return is_smooth_; }
  /// The length of the longest accepted text; nothing: there is no longest.
  [[nodiscard]] std::optional<uint32_t> longest() const { return longest_; }
  /// The number of accepted texts; nothing: more than `most`.
  [[nodiscard]] std::optional<size_t> num_texts(size_t most) const;

  /// Gives two states the same group if no text of `num_characters` distinguishes them.
  void group_states(size_t num_characters);
  [[nodiscard]] uint32_t group(uint32_t state) const { return groups_[state]; }

  [[nodiscard]] size_t num_states() const { return rest_.size(); }
  [[nodiscard]] size_t memory_bytes() const {
    return next_.size() * sizeof(uint32_t) + num_states() * 12 + ranges_.size() * 8;
  }

 private:
  [[nodiscard]] uint16_t class_of(uint32_t code_point) const {
    if (code_point < ascii_.size()) return ascii_[code_point];
    return class_beyond_ascii(code_point);
  }
  [[nodiscard]] uint16_t class_beyond_ascii(uint32_t code_point) const;
  void remove_dead_ends(const std::vector<bool>& accepts);
  void find_longest();

  std::array<uint16_t, 128> ascii_{};
  std::vector<std::pair<uint32_t, uint16_t>> ranges_;
  std::vector<uint64_t> class_sizes_;
  size_t num_classes_ = 0;
  std::vector<uint32_t> next_;  // by state and class
  std::vector<uint32_t> rest_;
  std::vector<bool> goes_on_;
  std::vector<uint32_t> groups_;
  uint32_t start_ = kDead;
  bool is_smooth_ = false;
  std::optional<uint32_t> longest_;
};

}  // namespace reprise::structured_output
