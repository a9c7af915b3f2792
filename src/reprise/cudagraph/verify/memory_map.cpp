#include "reprise/cudagraph/verify/memory_map.h"

#include <algorithm>

namespace reprise::cudagraph {
namespace {

constexpr auto kBeginsAfter = [](uintptr_t address, const MemoryRegion& region) {
  return address < region.begin;
};

}  // namespace

void MemoryMap::insert(Regions& regions, MemoryRegion region) {
  if (region.bytes == 0) return;
  auto after = std::upper_bound(regions.begin(), regions.end(), region.begin, kBeginsAfter);
  const auto extends = [](const MemoryRegion& a, const MemoryRegion& b) {
    return a.role == MemoryRole::constant && b.role == MemoryRole::constant && b.begin < a.end();
  };
  // Tied weights have two names, and parts of a weight may have names of their own.
  if (after != regions.begin() && extends(*(after - 1), region)) {
    MemoryRegion& before = *(after - 1);
    before.bytes = std::max(before.end(), region.end()) - before.begin;
    return;
  }
  while (after != regions.end() && extends(region, *after)) {
    region.bytes = std::max(region.end(), after->end()) - region.begin;
    after = regions.erase(after);
  }
  regions.insert(after, std::move(region));
}

const MemoryRegion* MemoryMap::find_in(const Regions& regions, uintptr_t address) noexcept {
  const auto after = std::upper_bound(regions.begin(), regions.end(), address, kBeginsAfter);
  if (after == regions.begin()) return nullptr;
  const MemoryRegion& region = *(after - 1);
  return address < region.end() ? &region : nullptr;
}

std::optional<std::pair<const MemoryRegion*, const MemoryRegion*>> MemoryMap::find_overlap() const {
  std::vector<const MemoryRegion*> all;
  for (const Regions* regions : {&regions_, &key_regions_}) {
    for (const MemoryRegion& region : *regions) all.push_back(&region);
  }
  std::ranges::sort(all, {}, [](const MemoryRegion* region) { return region->begin; });
  const MemoryRegion* furthest = nullptr;
  for (const MemoryRegion* region : all) {
    if (furthest != nullptr && region->begin < furthest->end()) return std::pair{furthest, region};
    if (furthest == nullptr || region->end() > furthest->end()) furthest = region;
  }
  return std::nullopt;
}

}  // namespace reprise::cudagraph
