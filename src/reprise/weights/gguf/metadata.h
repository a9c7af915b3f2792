#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reprise::weights::gguf {

/// Types of metadata values. The enumerators have the values in the file.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Bytes of a number or boolean; 0 for strings and arrays, and for numbers that name no type.
[[nodiscard]] constexpr size_t value_bytes(ValueType type) noexcept {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      break;
  }
  return 0;
}

/// A list of strings, or of numbers in the bytes of the file.
struct ArrayValue {
  ValueType type = ValueType::u8;
  std::vector<std::string> strings;
  std::vector<std::byte> numbers;

  [[nodiscard]] size_t size() const noexcept {
    return type == ValueType::string ? strings.size() : numbers.size() / value_bytes(type);
  }
  /// The number at `index`, for an array of numbers or booleans. \pre index < size()
  [[nodiscard]] double number(size_t index) const;
};

using Value = std::variant<uint64_t, int64_t, double, bool, std::string, ArrayValue>;

/// Reads the number of type `type` at `bytes`. \pre value_bytes(type) != 0
[[nodiscard]] Value read_number(ValueType type, const std::byte* bytes);

/// The metadata of a file, with typed access. A key that is absent is "not given"; a value of
/// another type, or out of range, is a FileError E_CONFIG that names the key.
class Metadata {
 public:
  explicit Metadata(std::string path = "") : path_(std::move(path)) {}

  /// Returns false if the key exists already.
  bool add(std::string key, Value value) {
    return values_.emplace(std::move(key), std::move(value)).second;
  }

  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }
  [[nodiscard]] size_t size() const noexcept { return values_.size(); }
  [[nodiscard]] std::optional<int64_t> integer(std::string_view key,
                                               int64_t least,
                                               int64_t most) const;
  [[nodiscard]] int64_t required_integer(std::string_view key, int64_t least, int64_t most) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  /// The string lives as long as this object; nullptr when not given.
  [[nodiscard]] const std::string* string(std::string_view key) const;
  [[nodiscard]] bool is_array(std::string_view key) const {
    const Value* value = find(key);
    return value != nullptr && std::holds_alternative<ArrayValue>(*value);
  }
  /// nullptr when not given.
  [[nodiscard]] const ArrayValue* array(std::string_view key) const;
  /// nullptr when not given. \throws FileError when the array does not hold strings
  [[nodiscard]] const std::vector<std::string>* strings(std::string_view key) const;

  [[noreturn]] void fail(std::string_view key, std::string_view message) const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] const Value* find(std::string_view key) const;

  std::string path_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace reprise::weights::gguf
