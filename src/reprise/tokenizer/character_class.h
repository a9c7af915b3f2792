#pragma once

namespace reprise::tokenizer {

/// Unicode's White_Space property.
[[nodiscard]] bool is_whitespace(char32_t code_point) noexcept;

/// General category Nd, Nl or No.
[[nodiscard]] bool is_numeric(char32_t code_point) noexcept;

/// ASCII punctuation and symbols, or general category P*.
[[nodiscard]] bool is_punctuation(char32_t code_point) noexcept;

/// General category Cc, Cf, Cs or Co: all of C except unassigned code points.
[[nodiscard]] bool is_other(char32_t code_point) noexcept;

/// General category Mn.
[[nodiscard]] bool is_nonspacing_mark(char32_t code_point) noexcept;

/// General category Mn, Mc or Me.
[[nodiscard]] bool is_mark(char32_t code_point) noexcept;

/// `\w` of UTS #18: Alphabetic, M*, Nd, Pc and the join controls.
[[nodiscard]] bool is_word(char32_t code_point) noexcept;

}  // namespace reprise::tokenizer
