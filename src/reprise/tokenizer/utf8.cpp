#include "reprise/tokenizer/utf8.h"

#include <cstring>

namespace reprise::tokenizer {
namespace {

size_t ascii_prefix(std::string_view text) noexcept {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

/// Length of the well-formed sequence at the start of `text`, 0 when there is none.
size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = utf8_length(text[0]);
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!continues(i)) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& position) noexcept {
  const auto byte = [&](size_t i) -> char32_t {
    return static_cast<unsigned char>(text[position + i]);
  };
  const size_t length = utf8_length(text[position]);
  char32_t code_point = 0;
  switch (length) {
    case 1:
      code_point = byte(0);
      break;
    case 2:
      code_point = (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
      break;
    case 3:
      code_point = (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
      break;
    default:
      code_point = (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
                   (byte(3) & 0x3F);
  }
  position += length;
  return code_point;
}

size_t previous_boundary(std::string_view text, size_t position) noexcept {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) noexcept {
  while (true) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Utf8Stream stream;
  stream.push(text, out);
  stream.finish(out);
  return out;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    if (num_pending_ == 0) {
      const size_t plain = ascii_prefix(bytes);
      out.append(bytes.substr(0, plain));
      bytes.remove_prefix(plain);
      if (bytes.empty()) return;
    }
    push_byte(static_cast<unsigned char>(bytes.front()), out);
    bytes.remove_prefix(1);
  }
}

void Utf8Stream::push_byte(unsigned char byte, std::string& out) {
  if (num_pending_ > 0) {
    if (byte >= lowest_ && byte <= highest_) {
      pending_[num_pending_++] = static_cast<char>(byte);
      lowest_ = 0x80;
      highest_ = 0xBF;
      if (--num_missing_ == 0) {
        out.append(pending_, num_pending_);
        num_pending_ = 0;
      }
      return;
    }
    append_utf8(kReplacementCharacter, out);
    num_pending_ = 0;
  }
  if (byte < 0x80) {
    out.push_back(static_cast<char>(byte));
    return;
  }
  if (byte < 0xC2 || byte > 0xF4) {
    append_utf8(kReplacementCharacter, out);
    return;
  }
  pending_[0] = static_cast<char>(byte);
  num_pending_ = 1;
  num_missing_ = static_cast<uint8_t>(utf8_length(static_cast<char>(byte)) - 1);
  lowest_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  highest_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
}

void Utf8Stream::finish(std::string& out) {
  if (num_pending_ > 0) append_utf8(kReplacementCharacter, out);
  num_pending_ = 0;
  lowest_ = 0x80;
  highest_ = 0xBF;
}

}  // namespace reprise::tokenizer
