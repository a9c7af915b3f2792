#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::cudagraph {

/// The role of a region of memory for a graph.
enum class MemoryRole : uint8_t {
  constant,   // weights and tables: no graph writes them
  staged,     // the engine writes them before each step: no graph writes them
  kept,       // caches, states and counters: a step reads what earlier steps wrote
  workspace,  // memory of the graph itself; its content before a replay has no meaning
  foreign,    // memory of other work, which may run between the nodes of a key
};

/// A range of memory with one meaning.
struct MemoryRegion {
  uintptr_t begin = 0;
  size_t bytes = 0;
  MemoryRole role = MemoryRole::workspace;
  std::string name;  // for messages: "model.layers.0.mlp.down_proj.weight", "graph pool"

  [[nodiscard]] uintptr_t end() const noexcept { return begin + bytes; }
};

/// All memory that graphs may use, as regions in the order of their addresses. Some regions stay.
/// Others belong to the current key, because the staged memory depends on the size of its batch. A
/// value type.
class MemoryMap {
 public:
  /// Empty regions are left out. Constant regions that overlap become one, with the first name.
  void add(MemoryRegion region) { insert(regions_, std::move(region)); }
  /// Adds a region of the current key.
  void add_for_key(MemoryRegion region) { insert(key_regions_, std::move(region)); }
  /// Drops the regions of the current key.
  void begin_key() noexcept { key_regions_.clear(); }
  /// Drops the regions that stay.
  void clear_lasting() noexcept { regions_.clear(); }

  /// The region that contains this byte; nullptr: no region does.
  [[nodiscard]] const MemoryRegion* find(uintptr_t address) const noexcept {
    const MemoryRegion* region = find_in(regions_, address);
    return region != nullptr ? region : find_in(key_regions_, address);
  }
  /// Two regions that have a byte in common. Nothing if no regions overlap.
  [[nodiscard]] std::optional<std::pair<const MemoryRegion*, const MemoryRegion*>> find_overlap()
      const;
  [[nodiscard]] size_t num_regions() const noexcept {
    return regions_.size() + key_regions_.size();
  }

 private:
  using Regions = std::vector<MemoryRegion>;  // sorted by their begin

  static void insert(Regions& regions, MemoryRegion region);
  [[nodiscard]] static const MemoryRegion* find_in(const Regions& regions,
                                                   uintptr_t address) noexcept;

  Regions regions_;
  Regions key_regions_;
};

}  // namespace reprise::cudagraph
