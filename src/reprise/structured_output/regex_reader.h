#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reprise/structured_output/character_set.h"

namespace reprise::structured_output {

/// A part of a regular expression.
struct RegexPart {
  enum class Kind : uint8_t {
    set,
    sequence,
    alternatives,
    repetition,
    look_ahead,
    text_start,
    text_end,
  };
  Kind kind = Kind::sequence;
  Approximation set;
  std::vector<RegexPart> parts;
  int64_t least = 0;            // of a repetition
  std::optional<int64_t> most;  // nothing: no limit
  bool is_negative = false;     // look-ahead
  bool looks_around = false;    // holds look-ahead or anchors
  bool can_be_empty = false;

  /// Whether this part never matches a character.
  [[nodiscard]] bool is_zero_width() const;
};

/// Reads the syntax that Python's and ECMAScript's engines share. \throws InvalidArgument with the
/// position
[[nodiscard]] RegexPart read_regex(std::string_view pattern);

}  // namespace reprise::structured_output
