#pragma once

#include <string>
#include <string_view>

namespace reprise::compile {

/// Everything that the content of an entry depends on, as named fields in a fixed order. Two keys
/// are equal if their texts are equal. The hash is only used as the folder's name.
class CacheKey {
 public:
  /// Appends a field. `value` may have any bytes. Another order, or a field added twice, gives
  /// another key.
  /// \pre `name` is not empty and has only [A-Za-z0-9_.]
  CacheKey& add(std::string_view name, std::string_view value);
  /// Appends XXH3 of a long value instead of the value.
  CacheKey& add_digest(std::string_view name, std::string_view value);

  /// One line `name=value` per field, in printable ASCII: other bytes are written `\xHH`, a
  /// backslash `\\`, a line break `\n`. Different fields never give the same text.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  /// XXH3 of the text, 128 bits: 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string hash() const;

  friend bool operator==(const CacheKey&, const CacheKey&) = default;

 private:
  std::string text_;
};

}  // namespace reprise::compile
