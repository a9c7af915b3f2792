#include "reprise/tensor/dtype.h"

#include <array>
#include <utility>

namespace reprise {

std::string_view dtype_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::f8e4m3:
      return "float8_e4m3fn";
    case DType::f8e5m2:
      return "float8_e5m2";
    case DType::i8:
      return "int8";
    case DType::u8:
      return "uint8";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
  }
  return "unknown";
}

std::optional<DType> parse_dtype(std::string_view text) noexcept {
  // PyTorch writes "torch.bfloat16". Checkpoints of older tools have this prefix too.
  if (text.starts_with("torch.")) text.remove_prefix(6);
  constexpr std::array<std::pair<std::string_view, DType>, 16> kNames = {
      {{"float32", DType::f32},
       {"float", DType::f32},
       {"f32", DType::f32},
       {"fp32", DType::f32},
       {"bfloat16", DType::bf16},
       {"bf16", DType::bf16},
       {"float16", DType::f16},
       {"half", DType::f16},
       {"f16", DType::f16},
       {"fp16", DType::f16},
       {"float8_e4m3fn", DType::f8e4m3},
       {"float8_e5m2", DType::f8e5m2},
       {"int8", DType::i8},
       {"uint8", DType::u8},
       {"int32", DType::i32},
       {"int64", DType::i64}}};
  for (const auto& [name, dtype] : kNames) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

}  // namespace reprise
