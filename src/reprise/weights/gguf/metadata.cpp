#include "reprise/weights/gguf/metadata.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

template <typename T>
T load_number(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

}  // namespace

Value read_number(ValueType type, const std::byte* bytes) {
  switch (type) {
    case ValueType::u8:
      return uint64_t{load_number<uint8_t>(bytes)};
    case ValueType::i8:
      return int64_t{load_number<int8_t>(bytes)};
    case ValueType::u16:
      return uint64_t{load_number<uint16_t>(bytes)};
    case ValueType::i16:
      return int64_t{load_number<int16_t>(bytes)};
    case ValueType::u32:
      return uint64_t{load_number<uint32_t>(bytes)};
    case ValueType::i32:
      return int64_t{load_number<int32_t>(bytes)};
    case ValueType::f32:
      return double{load_number<float>(bytes)};
    case ValueType::boolean:
      return load_number<uint8_t>(bytes) != 0;
    case ValueType::u64:
      return load_number<uint64_t>(bytes);
    case ValueType::i64:
      return load_number<int64_t>(bytes);
    case ValueType::f64:
      return load_number<double>(bytes);
    case ValueType::string:
    case ValueType::array:
      break;
  }
  REPRISE_ASSERT(false, "type {} is not a number", static_cast<uint32_t>(type));
}

double ArrayValue::number(size_t index) const {
  REPRISE_ASSERT(index < size(), "element {} of {}", index, size());
  const Value value = read_number(type, numbers.data() + index * value_bytes(type));
  return std::visit(
      [](const auto& held) -> double {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>) {
          return static_cast<double>(held);
        } else {
          return std::numeric_limits<double>::quiet_NaN();
        }
      },
      value);
}

const Value* Metadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<int64_t> Metadata::integer(std::string_view key, int64_t least, int64_t most) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> integer;
  if (const auto* natural = std::get_if<uint64_t>(value)) {
    if (*natural <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      integer = static_cast<int64_t>(*natural);
    }
  } else if (const auto* whole = std::get_if<int64_t>(value)) {
    integer = *whole;
  }
  if (!integer || *integer < least || *integer > most) {
    fail(key,
         fmt::format("must be an integer from {} to {}{}",
                     least,
                     most,
                     integer ? fmt::format(", got {}", *integer) : std::string()));
  }
  return integer;
}

int64_t Metadata::required_integer(std::string_view key, int64_t least, int64_t most) const {
  const std::optional<int64_t> value = integer(key, least, most);
  if (!value) fail(key, fmt::format("is required: an integer from {} to {}", least, most));
  return *value;
}

std::optional<double> Metadata::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* real = std::get_if<double>(value)) number = *real;
  if (const auto* natural = std::get_if<uint64_t>(value)) number = static_cast<double>(*natural);
  if (const auto* whole = std::get_if<int64_t>(value)) number = static_cast<double>(*whole);
  if (!std::isfinite(number)) fail(key, "must be a finite number");
  return number;
}

std::optional<bool> Metadata::boolean(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* boolean = std::get_if<bool>(value)) return *boolean;
  fail(key, "must be true or false");
}

const std::string* Metadata::string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* string = std::get_if<std::string>(value)) return string;
  fail(key, "must be a string");
}

const ArrayValue* Metadata::array(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* array = std::get_if<ArrayValue>(value)) return array;
  fail(key, "must be an array");
}

const std::vector<std::string>* Metadata::strings(std::string_view key) const {
  const ArrayValue* value = array(key);
  if (value == nullptr) return nullptr;
  if (value->type != ValueType::string) fail(key, "must be an array of strings");
  return &value->strings;
}

void Metadata::fail(std::string_view key, std::string_view message) const {
  throw FileError("E_CONFIG", path_, visible(key), message);
}

}  // namespace reprise::weights::gguf
