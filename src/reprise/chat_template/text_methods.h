#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/chat_template/builtins.h"

namespace reprise::chat_template {

/// The method of Python's str with that name, or null.
[[nodiscard]] const Builtin* find_text_method(std::string_view name);

/// str.replace(); count < 0 replaces all.
[[nodiscard]] std::string replace_text(Sandbox& sandbox,
                                       std::string_view text,
                                       std::string_view old_part,
                                       std::string_view new_part,
                                       int64_t count);
/// str.splitlines()
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
[[nodiscard]] std::string capitalize_text(std::string_view text);
/// Joins with one size check up front.
[[nodiscard]] std::string join_texts(Sandbox& sandbox,
                                     std::string_view separator,
                                     const std::vector<std::string>& parts);
/// Pads to `width` code points. An odd blank goes where str.center() or where "{:^}" puts it.
enum class Justify { left, right, center, format_center };
[[nodiscard]] std::string pad_text(
    Sandbox& sandbox, std::string_view text, int64_t width, std::string_view fill, Justify justify);

}  // namespace reprise::chat_template
