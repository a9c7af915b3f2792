#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/program/sym_shape.h"

namespace reprise::program {

/// Where a result lies: `bytes_per_unit` times the value of its symbol, from the start of that
/// symbol's part of the arena. Sizes are affine, so one plan serves every batch.
struct Placement {
  Symbol symbol = Symbol::none;  // none: a fixed number of bytes
  int64_t bytes_per_unit = 0;    // multiple of kPlanAlignment

  friend bool operator==(const Placement&, const Placement&) = default;
};

inline constexpr int64_t kPlanAlignment = 64;  // bytes: a cache line, and the widest vector

/// A place for every result of a program that runs again and again, in one arena. Values whose
/// lifetimes do not meet share memory; a result may lie where an operand lies that dies there.
struct MemoryPlan {
  /// By piece of the split program, then by value of its program; nothing for what is not computed
  /// there (inputs, parameters, states, views).
  std::vector<std::vector<std::optional<Placement>>> pieces;
  /// Size of each symbol's part, in bytes per unit. By Symbol.
  std::array<int64_t, kSymbols.size() + 1> bytes_per_unit{};

  [[nodiscard]] bool empty() const noexcept { return pieces.empty(); }

  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

/// An arena that is large enough for symbols up to `largest`, cut into the parts of a plan.
class PlannedArena {
 public:
  /// Bytes that a plan needs. \pre largest is not negative
  [[nodiscard]] static size_t bytes_of(const MemoryPlan& plan, const SymbolValues& largest);

  /// `memory`: that many bytes, aligned to kPlanAlignment; owned by the caller.
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
