#pragma once

#include <string>
#include <string_view>

namespace reprise::cli {

/// A manual page in man(7) macros, made from plain text.
class ManualPage {
 public:
  /// `usage` begins with the words that name the page: "reprise bench modes MODEL [options]" makes
  /// reprise-bench-modes(1).
  ManualPage(std::string_view usage, std::string_view summary);

  void add_section(std::string_view title);
  void add_entry(std::string_view term, std::string_view text);
  /// Must come first in its section.
  void add_paragraph(std::string_view text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace reprise::cli
