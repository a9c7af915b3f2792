#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/program/sym_shape.h"

namespace reprise::program {

/// The place of a result in the arena. The arena has one part for each symbol. A result starts
/// `bytes_per_unit` * (value of `symbol`) bytes after the start of that symbol's part. All sizes
/// are affine in one symbol, so one memory plan serves batches of every size.
struct Placement {
  Symbol symbol = Symbol::none;  // none: the offset is bytes_per_unit itself
  int64_t bytes_per_unit = 0;    // multiple of kPlanAlignment

  friend bool operator==(const Placement&, const Placement&) = default;
};

inline constexpr int64_t kPlanAlignment =
    64;  // bytes: a cache line, and the widest vector register

/// A place in one arena for every result of a program that runs repeatedly. Two values may share
/// memory if they are never needed at the same time. A result may also take the memory of an
/// operand of the same op, if the op is the last use of that operand.
struct MemoryPlan {
  /// pieces[i][v] is the place of value v in the program of piece i. Nothing for values that need
  /// no place: inputs, parameters, states and views.
  std::vector<std::vector<std::optional<Placement>>> pieces;
  /// bytes_per_unit[s] times the value of symbol s is the size of the part of s.
  std::array<int64_t, kSymbols.size() + 1> bytes_per_unit{};

  [[nodiscard]] bool empty() const noexcept { return pieces.empty(); }

  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

/// An arena that is divided into the parts of a memory plan. It is large enough for symbol values
/// up to `largest`.
class PlannedArena {
 public:
  /// The size of the arena. \pre largest is not negative
  [[nodiscard]] static size_t bytes_of(const MemoryPlan& plan, const SymbolValues& largest);

  /// `memory` has bytes_of(plan, largest) bytes and is aligned to kPlanAlignment. The caller owns
  /// it.
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
