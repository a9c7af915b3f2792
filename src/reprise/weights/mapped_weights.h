#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise::weights {

/// One weight in the form in which kernels read it.
struct PackedWeight {
  std::string name;
  uint64_t plan = 0;  // digest of how the weight is made from the tensors of a checkpoint
  std::span<const std::byte> bytes;
};

/// Weights that are already in memory, in the form in which kernels read them: a mapped file. They
/// are read-only. Only reading is thread-safe.
class MappedWeights {
 public:
  virtual ~MappedWeights() = default;

  /// The weight with this name, if it was made by the same plan and has this many bytes; else
  /// empty. It begins at a page.
  [[nodiscard]] virtual std::span<std::byte> find(std::string_view name,
                                                  uint64_t plan,
                                                  uint64_t bytes) const noexcept = 0;
  /// Whether a weight that find() can return begins at this address.
  [[nodiscard]] virtual bool has(const void* memory) const noexcept = 0;
  /// Replaces the memory of a weight by writable zeros; find() then no longer returns it. The file
  /// keeps the weight. \throws OutOfMemory
  virtual void replace_by_zeros(std::span<std::byte> weight) = 0;
};

}  // namespace reprise::weights
