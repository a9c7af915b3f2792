#include "reprise/structured_output/text_leaf.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace reprise::structured_output {
namespace {

// A partial character: its kind, the number of missing bytes or digits, and the bits known so far.
constexpr uint32_t kEscape = 1U << 30U;
constexpr uint32_t kHex = 2U << 30U;
constexpr uint32_t kUtf8 = 3U << 30U;
constexpr uint32_t kKindMask = 3U << 30U;
constexpr uint32_t kMissingShift = 26;
constexpr uint32_t kLengthShift = 22;  // of a UTF-8 sequence, in bytes
constexpr uint32_t kValueMask = (1U << kLengthShift) - 1;

struct Range {
  uint32_t first;
  uint32_t last;
};

/// The largest rest that may follow after the next character.
uint32_t rest_limit(const TextLeaf& leaf, const TextState& at) {
  if (!leaf.most) return std::numeric_limits<uint32_t>::max() - 1;
  return static_cast<uint32_t>(std::max<int64_t>(*leaf.most - at.length, 0));
}

bool can_take(const TextLeaf& leaf, const TextState& at, Range range) {
  return range.first <= range.last &&
         leaf.automaton->can_step(at.state, range.first, range.last, rest_limit(leaf, at));
}

/// Takes a whole character whose first byte is already counted in at.length.
bool take_character(const TextLeaf& leaf, TextState& at, uint32_t code_point) {
  at.partial = 0;
  at.state = leaf.automaton->step(at.state, code_point);
  return at.state != Automaton::kDead && leaf.automaton->rest(at.state) <= rest_limit(leaf, at);
}

bool begin_character(const TextLeaf& leaf, TextState& at) {
  if (leaf.most && at.length >= *leaf.most) return false;
  ++at.length;
  return true;
}

/// Whether some code point that begins with these bits is allowed; overlong forms and surrogates
/// are not.
bool can_complete_utf8(const TextLeaf& leaf, const TextState& at) {
  const uint32_t missing = (at.partial >> kMissingShift) & 0xFU;
  const uint32_t length = (at.partial >> kLengthShift) & 0xFU;
  const uint32_t value = at.partial & kValueMask;
  static constexpr std::array<uint32_t, 5> kShortest = {0, 0, 0x80, 0x800, 0x10000};
  const uint32_t first = std::max(value << (6 * missing), kShortest[length]);
  const uint32_t last =
      std::min((value << (6 * missing)) | ((1U << (6 * missing)) - 1), CodePoints::kLast);
  return can_take(leaf, at, {first, std::min(last, 0xD7FFU)}) ||
         can_take(leaf, at, {std::max(first, 0xE000U), last});
}

TextStep result(bool is_taken) { return is_taken ? TextStep::inside : TextStep::refused; }

TextStep begin_utf8(const TextLeaf& leaf, TextState& at, uint8_t byte) {
  if (byte < 0xC2 || byte > 0xF4 || !begin_character(leaf, at)) return TextStep::refused;
  const uint32_t length = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  const uint32_t value = byte & (0x7FU >> length);
  at.partial = kUtf8 | ((length - 1) << kMissingShift) | (length << kLengthShift) | value;
  return result(can_complete_utf8(leaf, at));
}

TextStep continue_utf8(const TextLeaf& leaf, TextState& at, uint8_t byte) {
  if ((byte & 0xC0U) != 0x80U) return TextStep::refused;
  const uint32_t missing = ((at.partial >> kMissingShift) & 0xFU) - 1;
  const uint32_t length = (at.partial >> kLengthShift) & 0xFU;
  const uint32_t value = ((at.partial & kValueMask) << 6U) | (byte & 0x3FU);
  at.partial = kUtf8 | (missing << kMissingShift) | (length << kLengthShift) | value;
  if (!can_complete_utf8(leaf, at)) return TextStep::refused;
  return missing > 0 ? TextStep::inside : result(take_character(leaf, at, value));
}

constexpr std::string_view kEscapeLetters = "\"\\bfnrt/";
constexpr std::string_view kEscapedCharacters = "\"\\\b\f\n\r\t/";

size_t num_escapes(const TextLeaf& leaf) {
  return kEscapeLetters.size() - (leaf.allows_all_escapes ? 0 : 1);
}

TextStep begin_escape(const TextLeaf& leaf, TextState& at) {
  if (!begin_character(leaf, at)) return TextStep::refused;
  at.partial = kEscape;
  if (leaf.allows_all_escapes) return TextStep::inside;
  for (size_t i = 0; i < num_escapes(leaf); ++i) {
    const auto c = static_cast<uint32_t>(kEscapedCharacters[i]);
    if (can_take(leaf, at, {c, c})) return TextStep::inside;
  }
  return TextStep::refused;
}

bool can_complete_hex(const TextLeaf& leaf, const TextState& at) {
  const uint32_t missing = (at.partial >> kMissingShift) & 0xFU;
  const uint32_t first = (at.partial & kValueMask) << (4 * missing);
  const uint32_t last = first | ((1U << (4 * missing)) - 1);
  return can_take(leaf, at, {first, std::min(last, 0xD7FFU)}) ||
         can_take(leaf, at, {std::max(first, 0xE000U), last});
}

TextStep continue_escape(const TextLeaf& leaf, TextState& at, uint8_t byte) {
  if (byte == 'u' && leaf.allows_all_escapes) {
    at.partial = kHex | (4U << kMissingShift);
    return result(can_complete_hex(leaf, at));
  }
  const size_t known = kEscapeLetters.find(static_cast<char>(byte));
  if (known >= num_escapes(leaf)) return TextStep::refused;
  return result(take_character(leaf, at, static_cast<uint32_t>(kEscapedCharacters[known])));
}

TextStep continue_hex(const TextLeaf& leaf, TextState& at, uint8_t byte) {
  const auto lower = static_cast<uint8_t>(byte | 0x20U);
  uint32_t digit = 0;
  if (byte >= '0' && byte <= '9') {
    digit = byte - '0';
  } else if (lower >= 'a' && lower <= 'f') {
    digit = lower - 'a' + 10U;
  } else {
    return TextStep::refused;
  }
  const uint32_t missing = ((at.partial >> kMissingShift) & 0xFU) - 1;
  const uint32_t value = ((at.partial & kValueMask) << 4U) | digit;
  at.partial = kHex | (missing << kMissingShift) | value;
  if (!can_complete_hex(leaf, at)) return TextStep::refused;
  return missing > 0 ? TextStep::inside : result(take_character(leaf, at, value));
}

}  // namespace

TextStep take_byte(const TextLeaf& leaf, TextState& at, uint8_t byte) {
  switch (at.partial & kKindMask) {
    case kEscape:
      return continue_escape(leaf, at, byte);
    case kHex:
      return continue_hex(leaf, at, byte);
    case kUtf8:
      return continue_utf8(leaf, at, byte);
    default:
      break;
  }
  if (leaf.is_json) {
    if (byte == '"') return may_end(leaf, at) ? TextStep::closed : TextStep::refused;
    if (byte == '\\') return begin_escape(leaf, at);
    if (byte < 0x20) return TextStep::refused;
  }
  if (byte >= 0x80) return begin_utf8(leaf, at, byte);
  if (!begin_character(leaf, at) || !take_character(leaf, at, byte)) return TextStep::refused;
  const bool is_over = !leaf.is_json && !leaf.automaton->goes_on(at.state);
  return is_over ? TextStep::closed : TextStep::inside;
}

bool may_end(const TextLeaf& leaf, const TextState& at) {
  return at.partial == 0 && leaf.automaton->accepts(at.state) && at.length >= leaf.least;
}

bool is_at_usual_place(const TextState& at) {
  return at.partial == 0 || (at.partial & kKindMask) == kEscape;
}

}  // namespace reprise::structured_output
