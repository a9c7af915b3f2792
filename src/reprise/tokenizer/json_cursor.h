#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::tokenizer {

/// Reads one JSON document front to back without building it: vocabularies and merge lists of ten
/// megabytes go straight into their tables, and everything else is cut out for parse_json().
/// What it reads as values is checked strictly; what it skips is only balanced (the reader of the
/// cut-out text checks the rest). Never recurses.
///
/// \throws FileError E_TRUNCATED when the text ends inside a value, E_DEPTH when it nests deeper
/// than kMaxDepth, E_TOKENIZER for everything else, each with the byte offset.
class JsonCursor {
 public:
  static constexpr int kMaxDepth = 64;

  /// Borrows both views for its life. `path` names the document in errors.
  JsonCursor(std::string_view text, std::string_view path, size_t position = 0)
      : text_(text), path_(path), position_(position) {}

  /// Visits the members of the object here: `visit(name)` must consume the value.
  template <typename Visit>
  void for_each_member(Visit&& visit) {
    expect('{');
    if (consume('}')) return;
    std::string storage;
    do {
      const std::string_view name = read_string(storage);
      expect(':');
      visit(name);
    } while (consume(','));
    expect('}');
  }

  /// Visits the elements of the array here: `visit()` must consume the value.
  template <typename Visit>
  void for_each_element(Visit&& visit) {
    expect('[');
    if (consume(']')) return;
    do {
      visit();
    } while (consume(','));
    expect(']');
  }

  /// The string here; a view of the document when it has no escapes, else of `storage`.
  [[nodiscard]] std::string_view read_string(std::string& storage);
  /// The number here, which must be an integer from 0 to `limit`.
  [[nodiscard]] uint32_t read_unsigned(uint32_t limit);
  /// The text of the value here, whatever it is.
  [[nodiscard]] std::string_view skip_value();
  /// First character of the next value without consuming it.
  [[nodiscard]] char peek();
  void expect_end();

  [[nodiscard]] size_t position() const noexcept { return position_; }
  [[noreturn]] void fail(std::string_view reason) const;
  [[noreturn]] void fail_with(std::string_view code, std::string_view reason) const;

 private:
  void skip_spaces() noexcept;
  [[nodiscard]] bool consume(char wanted);
  void expect(char wanted);
  void skip_string();
  void read_escape(std::string& out);
  [[nodiscard]] char32_t read_hex4();

  std::string_view text_;
  std::string_view path_;
  size_t position_;
};

}  // namespace reprise::tokenizer
