#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::tokenizer {

/// One node of tokenizer.json (a normalizer, a pre-tokenizer, ...) with its place, so that every
/// error names the file and the JSON pointer. Borrows the document.
class Component {
 public:
  /// Published files nest at most one Sequence. Readers of components recurse, so this limit also
  /// bounds their stack.
  static constexpr int kMaxNesting = 8;

  Component(const Json& value, std::string_view file, std::string pointer, int nesting = 0);

  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] const Json& json() const { return *value_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }

  /// Whether the member exists and is not null.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] Component at(std::string_view name) const;
  /// Elements of the array member `name`, one nesting level deeper. \throws FileError E_DEPTH
  [[nodiscard]] std::vector<Component> elements(std::string_view name) const;
  /// Elements of this array.
  [[nodiscard]] std::vector<Component> elements() const;

  [[nodiscard]] std::string type() const { return at("type").text(); }
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] size_t integer(size_t limit) const;
  [[nodiscard]] char32_t character() const;
  [[nodiscard]] bool boolean_or(std::string_view name, bool fallback) const;

  [[noreturn]] void fail(std::string_view message, std::string_view code = "E_TOKENIZER") const;
  /// Refuses a "type" (or other name) that this engine does not know.
  [[noreturn]] void fail_unknown(std::string_view what,
                                 std::string_view name,
                                 std::span<const std::string_view> supported) const;

 private:
  [[nodiscard]] const Json* find(std::string_view name) const;

  const Json* value_;  // owned by the document
  std::string file_;
  std::string pointer_;
  int nesting_;
};

}  // namespace reprise::tokenizer
