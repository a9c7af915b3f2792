#include "reprise/base/text/utf8.h"

#include <utf8proc.h>

#include <cstring>

namespace reprise {
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

}  // namespace

char32_t next_code_point(std::string_view text, size_t& position) noexcept {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + position);
  if (*bytes < 0x80) {
    ++position;
    return *bytes;
  }
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t length =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - position), &code_point);
  position += length > 0 ? static_cast<size_t>(length) : 1;
  return length > 0 ? static_cast<char32_t>(code_point) : kReplacementCharacter;
}

size_t count_code_points(std::string_view text) noexcept {
  size_t count = 0;
  for (size_t position = 0; position < text.size(); ++count) next_code_point(text, position);
  return count;
}

size_t offset_of_code_point(std::string_view text, size_t index) noexcept {
  size_t position = 0;
  for (; index > 0 && position < text.size(); --index) next_code_point(text, position);
  return position;
}

size_t previous_boundary(std::string_view text, size_t position) noexcept {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void append_utf8(char32_t code_point, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_valid_utf8(std::string_view text) noexcept {
  size_t position = ascii_prefix(text);
  while (position < text.size()) {
    const size_t start = position;
    const bool is_replaced = next_code_point(text, position) == kReplacementCharacter;
    if (is_replaced && position == start + 1) return false;
    position += ascii_prefix(text.substr(position));
  }
  return true;
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

}  // namespace reprise
