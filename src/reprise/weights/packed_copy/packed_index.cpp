#include "reprise/weights/packed_copy/packed_index.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "reprise/base/assert.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kMagic = "REPRPACK";
constexpr size_t kChecksumAt = kPackedHeaderBytes - sizeof(uint64_t);

uint64_t checksum_of(std::string_view text) noexcept {
  return packed_checksum(std::as_bytes(std::span(text)));
}

uint64_t aligned(uint64_t offset) noexcept {
  return (offset + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

void put(std::string& text, uint64_t number) {
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  text.append(bytes.data(), bytes.size());
}

void put_text(std::string& text, std::string_view value) {
  put(text, value.size());
  text.append(value);
}

uint64_t number_at(std::string_view text, size_t offset) noexcept {
  uint64_t number = 0;
  std::memcpy(&number, text.data() + offset, sizeof number);
  return number;
}

/// Reads fields from the front of a text.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  [[nodiscard]] std::optional<uint64_t> number() {
    if (rest_.size() < sizeof(uint64_t)) return std::nullopt;
    const uint64_t value = number_at(rest_, 0);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  [[nodiscard]] std::optional<std::string_view> text() {
    const std::optional<uint64_t> length = number();
    if (!length || *length > rest_.size()) return std::nullopt;
    const std::string_view value = rest_.substr(0, *length);
    rest_.remove_prefix(*length);
    return value;
  }
  [[nodiscard]] size_t bytes_left() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

std::optional<PackedEntry> parse_entry(Fields& fields) {
  const auto name = fields.text();
  const auto plan = fields.number();
  const auto offset = fields.number();
  const auto bytes = fields.number();
  const auto checksum = fields.number();
  if (!name || !plan || !offset || !bytes || !checksum) return std::nullopt;
  return PackedEntry{.name = std::string(*name),
                     .plan = *plan,
                     .offset = *offset,
                     .bytes = *bytes,
                     .checksum = *checksum};
}

uint64_t index_bytes_of(const PackedIndex& index) noexcept {
  uint64_t bytes = 2 * sizeof(uint64_t) + index.key.size();
  for (const PackedEntry& entry : index.entries) bytes += 5 * sizeof(uint64_t) + entry.name.size();
  return bytes;
}

}  // namespace

uint64_t packed_checksum(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t PackedIndex::lay_out() {
  uint64_t offset = aligned(kPackedHeaderBytes + index_bytes_of(*this));
  uint64_t end = offset;
  for (PackedEntry& entry : entries) {
    entry.offset = offset;
    end = offset + entry.bytes;
    offset = aligned(end);
  }
  return end;
}

std::string PackedIndex::print() const {
  std::string index;
  put_text(index, key);
  put(index, entries.size());
  for (const PackedEntry& entry : entries) {
    put_text(index, entry.name);
    for (const uint64_t number : {entry.plan, entry.offset, entry.bytes, entry.checksum}) {
      put(index, number);
    }
  }
  const uint64_t end = entries.empty() ? aligned(kPackedHeaderBytes + index.size())
                                       : entries.back().offset + entries.back().bytes;
  std::string text(kMagic);
  put(text, kPackedCopyVersion);
  put(text, index.size());
  put(text, checksum_of(index));
  put(text, end);
  text.resize(kChecksumAt);
  put(text, checksum_of(text));
  return text + index;
}

std::string parse_packed_header(std::string_view header,
                                uint64_t file_bytes,
                                PackedHeader& parsed) {
  if (header.size() < kPackedHeaderBytes || !header.starts_with(kMagic)) {
    return "is not a file of packed weights";
  }
  const std::string_view fields = header.substr(0, kChecksumAt);
  if (number_at(header, kChecksumAt) != checksum_of(fields)) return "the header is damaged";
  if (const uint64_t version = number_at(header, kMagic.size()); version != kPackedCopyVersion) {
    return fmt::format("has version {}, expected {}", version, kPackedCopyVersion);
  }
  parsed = {.index_bytes = number_at(header, 16),
            .index_checksum = number_at(header, 24),
            .file_bytes = number_at(header, 32)};
  if (parsed.file_bytes != file_bytes) {
    return fmt::format("has {} bytes, expected {}", file_bytes, parsed.file_bytes);
  }
  if (parsed.index_bytes > kMaxPackedIndexBytes ||
      parsed.index_bytes > file_bytes - kPackedHeaderBytes) {
    return fmt::format("an index of {} bytes does not fit", parsed.index_bytes);
  }
  return {};
}

std::string parse_packed_index(const PackedHeader& header,
                               std::string_view index,
                               PackedIndex& parsed) {
  constexpr const char* kDamaged = "the index is damaged";
  if (index.size() != header.index_bytes || checksum_of(index) != header.index_checksum) {
    return kDamaged;
  }
  Fields fields(index);
  const auto key = fields.text();
  const auto count = fields.number();
  if (!key || !count) return kDamaged;
  parsed = {.key = std::string(*key), .entries = {}};
  uint64_t offset = aligned(kPackedHeaderBytes + index.size());
  uint64_t end = offset;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < *count; ++i) {
    std::optional<PackedEntry> entry = parse_entry(fields);
    if (!entry) return kDamaged;
    if (entry->offset != offset || offset > header.file_bytes ||
        entry->bytes > header.file_bytes - offset) {
      return fmt::format("the weight {} does not lie where it should", entry->name);
    }
    if (!names.insert(entry->name).second) {
      return fmt::format("there are two weights {}", entry->name);
    }
    end = offset + entry->bytes;
    offset = aligned(end);
    parsed.entries.push_back(std::move(*entry));
  }
  if (fields.bytes_left() != 0 || end != header.file_bytes) return kDamaged;
  return {};
}

}  // namespace reprise::weights
