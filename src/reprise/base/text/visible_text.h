#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise {

/// Whether a name is shown as it is: valid UTF-8 without control characters, line separators, and
/// marks that change the direction of writing. Such characters make a log or a page show something
/// else than the name.
[[nodiscard]] bool is_visible_text(std::string_view text) noexcept;

/// A text from outside as a part of one line, for logs and messages: each character that
/// is_visible_text() does not allow becomes its number ("\u{1b}"), and a text longer than
/// `max_bytes` is cut.
[[nodiscard]] std::string visible_text(std::string_view text, size_t max_bytes = 200);

}  // namespace reprise
