#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::tokenizer {

/// Reads the fields of one message in the wire format of Protocol Buffers, from front to back.
/// Copies and allocates nothing, and knows no message types. Borrows all views.
///
/// Source: https://protobuf.dev/programming-guides/encoding/
class ProtobufReader {
 public:
  enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  struct Field {
    uint32_t number = 0;
    WireType type = WireType::varint;
    uint64_t value = 0;      // of a varint or of a fixed-size number
    std::string_view bytes;  // of a string or of a message inside this one
    size_t offset = 0;       // of `bytes` in the file
  };

  /// `offset` is the place of `message` in the file `path`, for errors.
  ProtobufReader(std::string_view message, std::string_view path, size_t offset = 0)
      : message_(message), path_(path), offset_(offset) {}

  /// Reads the next field; returns false at the end of the message. \throws FileError E_TRUNCATED
  /// or E_TOKENIZER with the byte offset
  [[nodiscard]] bool next(Field& field);

  /// The values of a field. \throws FileError E_TOKENIZER when the field has another wire type
  [[nodiscard]] std::string_view text(const Field& field) const;
  [[nodiscard]] uint64_t integer(const Field& field) const;
  [[nodiscard]] bool boolean(const Field& field) const { return integer(field) != 0; }
  [[nodiscard]] float real(const Field& field) const;

 private:
  [[nodiscard]] uint64_t read_varint();
  [[nodiscard]] uint64_t read_fixed(size_t num_bytes);
  void require_type(const Field& field, WireType type) const;

  std::string_view message_;
  std::string_view path_;
  size_t offset_;
  size_t position_ = 0;
};

}  // namespace reprise::tokenizer
