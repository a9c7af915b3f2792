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
  bf16_panels,  // a matrix of bf16 in the order of column_panels.h; weights only
  f16,
  f8e4m3,  // OCP E4M3FN: no infinities, largest 448
  f8e5m2,  // OCP E5M2: the upper half of a float16, largest 57344
  i8,
  i8_panels,  // a matrix of int8 with a scale per row, see int8_panels.h; weights only
  u8,
  i32,
  i64,
  // Matrices of smaller floats with scales, see float_panels.h; weights only.
  f8e4m3_panels,
  f8e5m2_panels,
  f4_panels,  // of four bits
};

/// Size of one element in bytes.
[[nodiscard]] constexpr size_t dtype_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::bf16_panels:
    case DType::f16:
      return 2;
    case DType::f8e4m3:
    case DType::f8e4m3_panels:
    case DType::f8e5m2:
    case DType::f8e5m2_panels:
    case DType::f4_panels:
    case DType::i8:
    case DType::i8_panels:
    case DType::u8:
      return 1;
    case DType::i64:
      return 8;
  }
  return 0;
}

/// Whether a type is that of matrices in panels, which only ops with such a weight take.
[[nodiscard]] constexpr bool is_panels(DType dtype) noexcept {
  return dtype == DType::bf16_panels || dtype == DType::i8_panels ||
         dtype == DType::f8e4m3_panels || dtype == DType::f8e5m2_panels ||
         dtype == DType::f4_panels;
}

/// The usual name of an element type: "float32", "bfloat16", "float16", "float8_e4m3fn",
/// "float8_e5m2", "int8", "uint8", "int32", "int64".
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;

/// Reads the names that config.json and --dtype use ("bfloat16", "bf16", "half", "float", ...).
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view text) noexcept;

}  // namespace reprise
