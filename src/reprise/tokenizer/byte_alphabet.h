#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::tokenizer {

/// The byte-level alphabet of GPT-2: one printable character for each of the 256 bytes, so that any
/// text can be written as strings of a vocabulary. Printable Latin-1 characters stand for
/// themselves; the other 68 bytes are U+0100 onwards in order.
class ByteAlphabet {
 public:
  ByteAlphabet();

  /// Appends the letters of `bytes`.
  void append_letters(std::string_view bytes, std::string& out) const;
  /// Appends the bytes that `letters` stand for. If one character is not a letter of the alphabet,
  /// `letters` is appended unchanged. \pre well-formed UTF-8
  void append_bytes(std::string_view letters, std::string& out) const;

 private:
  static constexpr size_t kEnd = 0x100 + 68;  // one past the last letter
  struct Letter {
    char utf8[2];
    uint8_t size;
  };
  std::array<Letter, 256> letters_{};
  std::array<int16_t, kEnd> bytes_{};  // -1: not a letter
};

/// The only instance of the alphabet.
[[nodiscard]] const ByteAlphabet& byte_alphabet();

}  // namespace reprise::tokenizer
