#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise::kv_cache {

/// Appends values in MessagePack's shortest form, as msgspec writes them.
class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(&out) {}

  void nil() { byte(0xc0); }
  void array(size_t count) { head(count, 0x90, 15, 0xdc); }
  void map(size_t count) { head(count, 0x80, 15, 0xde); }

  void unsigned_integer(uint64_t value) {
    if (value < 0x80) return byte(static_cast<uint8_t>(value));
    if (value <= 0xff) return tagged<1>(0xcc, value);
    if (value <= 0xffff) return tagged<2>(0xcd, value);
    if (value <= 0xffff'ffff) return tagged<4>(0xce, value);
    tagged<8>(0xcf, value);
  }

  void number(double value) { tagged<8>(0xcb, std::bit_cast<uint64_t>(value)); }

  void text(std::string_view value) {
    if (value.size() < 32) {
      byte(static_cast<uint8_t>(0xa0 | value.size()));
    } else if (value.size() <= 0xff) {
      tagged<1>(0xd9, value.size());
    } else if (value.size() <= 0xffff) {
      tagged<2>(0xda, value.size());
    } else {
      tagged<4>(0xdb, value.size());
    }
    out_->append(value);
  }

  /// \pre at most 255 bytes
  void bytes(std::span<const std::byte> value) {
    tagged<1>(0xc4, value.size());
    out_->append(reinterpret_cast<const char*>(value.data()), value.size());
  }

 private:
  void byte(uint8_t value) { out_->push_back(static_cast<char>(value)); }

  template <int kNumBytes>
  void tagged(uint8_t tag, uint64_t value) {
    byte(tag);
    for (int shift = 8 * (kNumBytes - 1); shift >= 0; shift -= 8) {
      byte(static_cast<uint8_t>(value >> shift));
    }
  }

  /// Begins an array or a map. Up to `most` the count is part of the tag; a larger count takes 2 or
  /// 4 bytes after the tag.
  void head(size_t count, uint8_t short_tag, size_t most, uint8_t long_tag) {
    if (count <= most) return byte(static_cast<uint8_t>(short_tag | count));
    if (count <= 0xffff) return tagged<2>(long_tag, count);
    tagged<4>(static_cast<uint8_t>(long_tag + 1), count);
  }

  std::string* out_;  // the caller's
};

}  // namespace reprise::kv_cache
