#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// Element types of tensors and weights.
enum class DType : uint8_t {
  f32,
  bf16,
  f16,
  f8e4m3,  // OCP E4M3FN: no infinities, largest 448
  f8e5m2,  // OCP E5M2: the upper half of a float16, largest 57344
  i8,
  u8,
  i32,
  i64,
};

/// Size of one element in bytes.
[[nodiscard]] constexpr size_t dtype_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::i8:
    case DType::u8:
      return 1;
    case DType::i64:
      return 8;
  }
  return 0;
}

/// The usual name of an element type: "float32", "bfloat16", "float16", "float8_e4m3fn",
/// "float8_e5m2", "int8", "uint8", "int32", "int64".
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;

/// Reads the names that config.json and --dtype use ("bfloat16", "bf16", "half", "float", ...).
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view text) noexcept;

}  // namespace reprise
