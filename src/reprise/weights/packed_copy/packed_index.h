#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::weights {

/// A change of the file's structure raises this number, so that older files are ignored.
inline constexpr uint32_t kPackedCopyVersion = 1;
/// Weights begin at multiples of this many bytes, so that no two weights share a page.
inline constexpr uint64_t kPackedAlignment = 4096;
/// A longer index is not read. An index of 100,000 weights has about 20 MB.
inline constexpr uint64_t kMaxPackedIndexBytes = uint64_t{64} << 20;
/// The number of bytes in a file before its index.
inline constexpr size_t kPackedHeaderBytes = 64;

/// One weight in a packed copy.
struct PackedEntry {
  std::string name;
  uint64_t plan = 0;      // digest of how the weight is made from the tensors of a checkpoint
  uint64_t offset = 0;    // in the file
  uint64_t bytes = 0;     // without padding
  uint64_t checksum = 0;  // packed_checksum() of these bytes

  friend bool operator==(const PackedEntry&, const PackedEntry&) = default;
};

/// The beginning of a file with packed weights: what it was made from, and the offset of each
/// weight.
struct PackedIndex {
  std::string key;  // what the weights depend on; a copy with another key is not used
  std::vector<PackedEntry> entries;

  /// Gives each entry its offset, in order. \returns the size of the whole file
  uint64_t lay_out();
  /// The bytes of header and index. \pre lay_out()
  [[nodiscard]] std::string print() const;

  friend bool operator==(const PackedIndex&, const PackedIndex&) = default;
};

/// The first fields of a file, which say how long its index is.
struct PackedHeader {
  uint64_t index_bytes = 0;
  uint64_t index_checksum = 0;
  uint64_t file_bytes = 0;
};

/// XXH3, 64 bits.
[[nodiscard]] uint64_t packed_checksum(std::span<const std::byte> bytes) noexcept;

/// Reads the header of a file of `file_bytes` bytes. \returns why it is refused, or an empty text
[[nodiscard]] std::string parse_packed_header(std::string_view header,
                                              uint64_t file_bytes,
                                              PackedHeader& parsed);

/// Reads the index after the header. Whatever the bytes are, the result is either refused or
/// consistent: entries are within the file, in order, after the index, and do not overlap. \returns
/// why it is refused, or an empty text
[[nodiscard]] std::string parse_packed_index(const PackedHeader& header,
                                             std::string_view index,
                                             PackedIndex& parsed);

}  // namespace reprise::weights
