#include "reprise/tokenizer/vocabulary_files/protobuf_reader.h"

#include <fmt/format.h>

#include <bit>

#include "reprise/base/error.h"

namespace reprise::tokenizer {
namespace {

constexpr uint32_t kMaxFieldNumber = (1U << 29U) - 1;

}  // namespace

uint64_t ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 64; shift += 7) {
    if (position_ == message_.size()) {
      throw FileError("E_TRUNCATED",
                      path_,
                      fmt::format("byte {}", offset_ + position_),
                      "the message ends inside a number");
    }
    const auto byte = static_cast<uint8_t>(message_[position_++]);
    value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  throw FileError("E_TOKENIZER",
                  path_,
                  fmt::format("byte {}", offset_ + position_),
                  "a number has more than ten bytes: the file is not a Protocol Buffers message");
}

uint64_t ProtobufReader::read_fixed(size_t num_bytes) {
  if (message_.size() - position_ < num_bytes) {
    throw FileError(
        "E_TRUNCATED",
        path_,
        fmt::format("byte {}", offset_ + position_),
        fmt::format(
            "expected {} bytes, the message has {} left", num_bytes, message_.size() - position_));
  }
  uint64_t value = 0;
  for (size_t i = 0; i < num_bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(message_[position_ + i])) << (8 * i);
  }
  position_ += num_bytes;
  return value;
}

bool ProtobufReader::next(Field& field) {
  if (position_ == message_.size()) return false;
  const size_t begin = offset_ + position_;
  const uint64_t tag = read_varint();
  const uint64_t number = tag >> 3U;
  if (number == 0 || number > kMaxFieldNumber) {
    throw FileError("E_TOKENIZER",
                    path_,
                    fmt::format("byte {}", begin),
                    fmt::format("no field has the number {}", number));
  }
  field = {.number = static_cast<uint32_t>(number), .bytes = {}};
  field.type = static_cast<WireType>(tag & 7U);
  switch (field.type) {
    case WireType::varint:
      field.value = read_varint();
      return true;
    case WireType::fixed64:
      field.value = read_fixed(8);
      return true;
    case WireType::fixed32:
      field.value = read_fixed(4);
      return true;
    case WireType::bytes: {
      const uint64_t num_bytes = read_varint();
      if (num_bytes > message_.size() - position_) {
        throw FileError("E_TRUNCATED",
                        path_,
                        fmt::format("byte {}", begin),
                        fmt::format("field {} has {} bytes, the message has {} left",
                                    number,
                                    num_bytes,
                                    message_.size() - position_));
      }
      field.offset = offset_ + position_;
      field.bytes = message_.substr(position_, num_bytes);
      position_ += num_bytes;
      return true;
    }
  }
  throw FileError("E_TOKENIZER",
                  path_,
                  fmt::format("byte {}", begin),
                  fmt::format("field {} has the wire type {}, expected 0, 1, 2 or 5",
                              number,
                              static_cast<int>(tag & 7U)));
}

void ProtobufReader::require_type(const Field& field, WireType type) const {
  if (field.type == type) return;
  throw FileError("E_TOKENIZER",
                  path_,
                  fmt::format("byte {}", offset_ + position_),
                  fmt::format("field {} has the wire type {}, expected {}",
                              field.number,
                              static_cast<int>(field.type),
                              static_cast<int>(type)));
}

std::string_view ProtobufReader::text(const Field& field) const {
  require_type(field, WireType::bytes);
  return field.bytes;
}

uint64_t ProtobufReader::integer(const Field& field) const {
  require_type(field, WireType::varint);
  return field.value;
}

float ProtobufReader::real(const Field& field) const {
  require_type(field, WireType::fixed32);
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

}  // namespace reprise::tokenizer
