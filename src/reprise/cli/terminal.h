#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::cli {

/// Columns of the terminal behind a file descriptor; `otherwise` where there is no terminal.
[[nodiscard]] size_t terminal_width(int file_descriptor, size_t otherwise);

/// Columns for help: those of the terminal on standard output, within limits. Output to a file or a
/// pipe has a fixed width, so that generated pages do not change.
[[nodiscard]] size_t help_width();

/// `text` broken between words into lines of at most `width` columns. The first line starts at
/// column `first_column`, which the caller has already written; the others are indented by `indent`
/// spaces. A word longer than a line gets a line of its own.
[[nodiscard]] std::string wrap(std::string_view text,
                               size_t first_column,
                               size_t indent,
                               size_t width);

/// `text` cut to `width` columns, without breaking a UTF-8 character. Counts one column a
/// character.
[[nodiscard]] std::string_view cut(std::string_view text, size_t width);

/// Ten characters, `#` for each full tenth of `done` out of `total` and `.` for the rest.
[[nodiscard]] std::string tenths_bar(size_t done, size_t total);

}  // namespace reprise::cli
