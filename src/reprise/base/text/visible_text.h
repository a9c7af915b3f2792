#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise {

/// Whether a name shows what it holds: it is valid UTF-8 without control characters, separators of
/// lines, and marks that change the direction of writing. Those make a log or a page say something
/// else than the name.
[[nodiscard]] bool is_visible_text(std::string_view text) noexcept;

/// A text from outside as a part of one line, for logs and messages: what is_visible_text() does
/// not allow becomes its number ("\u{1b}"), and what is longer than `max_bytes` is cut.
[[nodiscard]] std::string visible_text(std::string_view text, size_t max_bytes = 200);

}  // namespace reprise
