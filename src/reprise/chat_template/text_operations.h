#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/chat_template/builtins.h"
#include "reprise/chat_template/python_text.h"

/// The operations on texts that filters, str methods and format specs have in common.
namespace reprise::chat_template {

/// str.replace(); count < 0 replaces all.
[[nodiscard]] std::string replace_text(Sandbox& sandbox,
                                       std::string_view text,
                                       std::string_view old_part,
                                       std::string_view new_part,
                                       int64_t count);
/// str.splitlines()
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
[[nodiscard]] std::string capitalize_text(std::string_view text);
/// str.title(): a word starts after every character that is not a cased letter.
[[nodiscard]] std::string title_text(std::string_view text);
[[nodiscard]] std::string swap_case(std::string_view text);
/// A builtin that returns change(str(subject)); markup stays markup.
template <std::string (*change)(std::string_view)>
Value change_text(Sandbox& sandbox, const Value& subject, const Bound&) {
  const Value text = to_text(sandbox, subject);
  sandbox.charge_decode(text.text()->bytes.size());
  return sandbox.text(change(text.text()->bytes), text.text()->is_markup);
}
/// Joins the parts; checks the size of the result before building it.
[[nodiscard]] std::string join_texts(Sandbox& sandbox,
                                     std::string_view separator,
                                     const std::vector<std::string>& parts);
/// How to pad to `width` code points. str.center() and "{:^}" put an odd blank on different sides.
enum class Justify { left, right, center, format_center };
[[nodiscard]] std::string pad_text(
    Sandbox& sandbox, std::string_view text, int64_t width, std::string_view fill, Justify justify);

}  // namespace reprise::chat_template
