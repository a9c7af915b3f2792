#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reprise/structured_output/code_points.h"

namespace reprise::structured_output {

/// A set that engines of regular expressions read differently: Unicode's \w has letters that the
/// ASCII one lacks.
struct Approximation {
  CodePoints inner;  // in the set for every engine
  CodePoints outer;  // code points that are in the set for at least one engine

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
/// The characters of a general category of Unicode: L, Lu, Letter, Nd, ... Nothing: unknown
/// category.
[[nodiscard]] std::optional<CodePoints> general_category(std::string_view name);

}  // namespace reprise::structured_output
