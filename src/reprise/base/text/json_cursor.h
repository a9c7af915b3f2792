#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

/// The codes of the errors that a reader of one kind of file throws.
struct JsonErrorCodes {
  std::string_view malformed;
  std::string_view truncated = "E_TRUNCATED";
  std::string_view too_deep = "E_DEPTH";
};

/// Reads one JSON document from front to back without building it. Vocabularies and merge lists of
/// ten megabytes go straight into their tables, and small values are cut out for parse_json(). The
/// cursor checks strictly every value that it reads. In a value that it skips it only balances the
/// brackets: the reader of the cut-out text checks the rest. The cursor never recurses.
///
/// \throws FileError with the byte offset and one of the codes: `truncated` when the text ends
/// inside a value, `too_deep` when it nests deeper than kMaxDepth, else `malformed`.
class JsonCursor {
 public:
  static constexpr int kMaxDepth = 64;

  /// Borrows all views while the cursor lives. `path` names the document in errors.
  JsonCursor(std::string_view text,
             std::string_view path,
             const JsonErrorCodes& codes,
             size_t position = 0)
      : text_(text), path_(path), codes_(codes), position_(position) {}

  /// Visits the members of the object at the cursor: `visit(name)` must consume the value.
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

  /// Visits the elements of the array at the cursor: `visit()` must consume the value.
  template <typename Visit>
  void for_each_element(Visit&& visit) {
    expect('[');
    if (consume(']')) return;
    do {
      visit();
    } while (consume(','));
    expect(']');
  }

  /// Reads the string at the cursor. The result is a view of the document, or of `storage` when the
  /// string has escapes.
  [[nodiscard]] std::string_view read_string(std::string& storage);
  /// Reads the integer at the cursor, from 0 to `limit`. Any other value fails with `code`, or with
  /// the code of malformed text when `code` is empty.
  [[nodiscard]] uint64_t read_unsigned(uint64_t limit, std::string_view code = {});
  /// Skips the value at the cursor, of any kind, and returns its text.
  [[nodiscard]] std::string_view skip_value();
  /// Returns the first character of the next value without consuming it.
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
  [[noreturn]] void fail_in_string() const;
  [[nodiscard]] char32_t read_hex4();

  std::string_view text_;
  std::string_view path_;
  JsonErrorCodes codes_;
  size_t position_;
};

}  // namespace reprise
