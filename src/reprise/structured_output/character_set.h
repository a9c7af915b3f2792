#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/structured_output/code_points.h"

namespace reprise::structured_output {

/// A set that engines read differently: Unicode's \w has letters that the ASCII one lacks.
struct Approximation {
  CodePoints inner;  // in the set for every engine
  CodePoints outer;  // in the set for at least one engine

  [[nodiscard]] Approximation complement() const {
    return {outer.complement(), inner.complement()};
  }
  void add(const Approximation& other) {
    inner.add(other.inner);
    outer.add(other.outer);
  }
  static Approximation exactly(uint32_t first, uint32_t last) {
    return {{{first, last}}, {{first, last}}};
  }
};

/// The set of \d, \w, \s or of their complements, by its letter.
[[nodiscard]] std::optional<Approximation> named_set(uint32_t letter);
/// The code points that '.' does not match.
[[nodiscard]] const CodePoints& line_ends();
/// The letter after the backslash of a JSON escape, for code points that have a short one.
[[nodiscard]] std::optional<char> json_escape(uint32_t code_point);
/// `set` as a regular expression for one of its characters. \pre the set is not empty
[[nodiscard]] std::string set_text(const CodePoints& set);

}  // namespace reprise::structured_output
