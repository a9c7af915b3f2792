#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// Number of bytes of the UTF-8 sequence that `lead` starts.
/// \pre `lead` starts a well-formed sequence.
[[nodiscard]] constexpr size_t utf8_length(char lead) noexcept {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Reads the code point at `position` and moves `position` past it. A byte that starts no
/// well-formed sequence counts as one code point, U+FFFD. \pre position < text.size()
char32_t next_code_point(std::string_view text, size_t& position) noexcept;

/// Number of code points in `text`, counted as next_code_point() reads them.
[[nodiscard]] size_t count_code_points(std::string_view text) noexcept;
/// Byte offset of code point `index`; text.size() when the text has no more than `index` of them.
[[nodiscard]] size_t offset_of_code_point(std::string_view text, size_t index) noexcept;

/// Start of the character that ends just before `position`.
/// \pre 0 < position, and `text` is well-formed.
[[nodiscard]] size_t previous_boundary(std::string_view text, size_t position) noexcept;

void append_utf8(char32_t code_point, std::string& out);

[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

/// `text` with each ill-formed part replaced by U+FFFD, in the way of WHATWG's decoder.
[[nodiscard]] std::string to_valid_utf8(std::string_view text);

/// Turns a stream of bytes into well-formed UTF-8. The stream holds an unfinished character back
/// until its last byte arrives, and replaces each maximal ill-formed part by U+FFFD. Cutting the
/// bytes at other places gives the same text. One object serves one stream; not thread-safe.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  /// Ends the stream: an unfinished character becomes U+FFFD.
  void finish(std::string& out);

 private:
  void push_byte(unsigned char byte, std::string& out);

  char pending_[4] = {};
  uint8_t num_pending_ = 0;
  uint8_t num_missing_ = 0;
  // Allowed range of the next continuation byte: narrower after E0, ED, F0 and F4.
  uint8_t lowest_ = 0x80;
  uint8_t highest_ = 0xBF;
};

}  // namespace reprise
