#include "reprise/tokenizer/base64.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "reprise/base/error.h"

namespace reprise::tokenizer {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The six bits that a letter of base64 stands for.
std::optional<uint32_t> bits_of(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<uint32_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<uint32_t>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<uint32_t>(c - '0' + 52);
  if (c == '+') return 62;
  if (c == '/') return 63;
  return std::nullopt;
}

}  // namespace

std::string decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    throw InvalidArgument("is not base64: its length is not a multiple of 4");
  }
  size_t num_letters = text.size();
  while (num_letters > 0 && text.size() - num_letters < 2 && text[num_letters - 1] == '=') {
    --num_letters;
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t held = 0;
  for (size_t i = 0; i < num_letters; ++i) {
    const auto bits = bits_of(text[i]);
    if (!bits) throw InvalidArgument(fmt::format("is not base64: a wrong letter at {}", i));
    held = held << 6U | *bits;
    // Four letters hold three bytes; each letter except the first completes one.
    const uint32_t num_spare_bits = (3 - static_cast<uint32_t>(i % 4)) * 2;
    if (i % 4 != 0) bytes.push_back(static_cast<char>(held >> num_spare_bits & 0xFFU));
  }
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t begin = 0; begin < bytes.size(); begin += 3) {
    const std::string_view group = bytes.substr(begin, 3);
    uint32_t held = 0;
    for (size_t i = 0; i < 3; ++i) {
      held = held << 8U | (i < group.size() ? static_cast<uint8_t>(group[i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      text.push_back(i <= group.size() ? kLetters[held >> (18 - 6 * i) & 0x3FU] : '=');
    }
  }
  return text;
}

}  // namespace reprise::tokenizer
