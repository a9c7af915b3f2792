#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/program/sym_shape.h"

namespace reprise::program {

/// The place of a result: `bytes_per_unit` times the value of `symbol`, counted from the start of
/// that symbol's part of the arena. Sizes are affine in a symbol, so one plan serves every batch.
struct Placement {
  Symbol symbol = Symbol::none;  // none: the place does not depend on a size
  int64_t bytes_per_unit = 0;    // multiple of kPlanAlignment

  friend bool operator==(const Placement&, const Placement&) = default;
};

inline constexpr int64_t kPlanAlignment =
    64;  // bytes: a cache line, and the widest vector register

/// A place in one arena for every result of a program that runs repeatedly. Values whose lifetimes
/// do not overlap share memory. A result may lie in the memory of an operand whose last use is the
/// same op.
struct MemoryPlan {
  /// By piece of the split program, then by value of its program. Nothing for values that need no
  /// place: inputs, parameters, states, views.
  std::vector<std::vector<std::optional<Placement>>> pieces;
  /// Bytes per unit of each symbol's part, by Symbol.
  std::array<int64_t, kSymbols.size() + 1> bytes_per_unit{};

  [[nodiscard]] bool empty() const noexcept { return pieces.empty(); }

  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

/// An arena for a plan, large enough for symbols up to `largest`, divided into the plan's parts.
class PlannedArena {
 public:
  /// Bytes that a plan needs. \pre largest is not negative
  [[nodiscard]] static size_t bytes_of(const MemoryPlan& plan, const SymbolValues& largest);

  /// `memory` has that many bytes and is aligned to kPlanAlignment. The caller owns it.
  PlannedArena(const MemoryPlan& plan, const SymbolValues& largest, void* memory);

  [[nodiscard]] void* address(const Placement& placement,
                              const SymbolValues& values) const noexcept {
    return parts_[static_cast<size_t>(placement.symbol)] +
           placement.bytes_per_unit *
               (placement.symbol == Symbol::none ? 1 : values[placement.symbol]);
  }

 private:
  std::array<std::byte*, kSymbols.size() + 1> parts_{};
};

}  // namespace reprise::program
