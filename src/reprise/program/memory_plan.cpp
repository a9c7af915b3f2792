#include "reprise/program/memory_plan.h"

namespace reprise::program {
namespace {

int64_t part_bytes(const MemoryPlan& plan, size_t part, const SymbolValues& largest) {
  const auto symbol = static_cast<Symbol>(part);
  return plan.bytes_per_unit[part] * (symbol == Symbol::none ? 1 : largest[symbol]);
}

}  // namespace

size_t PlannedArena::bytes_of(const MemoryPlan& plan, const SymbolValues& largest) {
  int64_t bytes = 0;
  for (size_t part = 0; part < plan.bytes_per_unit.size(); ++part) {
    bytes += part_bytes(plan, part, largest);
  }
  return static_cast<size_t>(bytes);
}

PlannedArena::PlannedArena(const MemoryPlan& plan, const SymbolValues& largest, void* memory) {
  auto* next = static_cast<std::byte*>(memory);
  for (size_t part = 0; part < parts_.size(); ++part) {
    parts_[part] = next;
    next += part_bytes(plan, part, largest);
  }
}

}  // namespace reprise::program
