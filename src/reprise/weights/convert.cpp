#include "reprise/weights/convert.h"

#include <algorithm>
#include <cstring>

#include "reprise/base/assert.h"

namespace reprise::weights {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// memcpy instead of a cast, because file data may begin at any byte. It compiles to plain vector
// moves.
template <typename From, typename To, typename Function>
void convert_each(std::span<const std::byte> src, std::span<std::byte> dst, Function function) {
  const size_t num_elements = src.size() / sizeof(From);
  const std::byte* const in = src.data();
  std::byte* const out = dst.data();
  for (size_t i = 0; i < num_elements; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof(From), sizeof(From));
    const To converted = function(value);
    std::memcpy(out + i * sizeof(To), &converted, sizeof(To));
  }
}

}  // namespace

bool is_convertible(DType from, DType to) noexcept {
  return from == to || (is_float(from) && is_float(to));
}

void convert(DType from, std::span<const std::byte> src, DType to, std::span<std::byte> dst) {
  REPRISE_ASSERT(is_convertible(from, to), "{} to {}", dtype_name(from), dtype_name(to));
  REPRISE_ASSERT(src.size() % dtype_bytes(from) == 0 &&
                     src.size() / dtype_bytes(from) * dtype_bytes(to) == dst.size(),
                 "{} bytes of {} into {} bytes of {}",
                 src.size(),
                 dtype_name(from),
                 dst.size(),
                 dtype_name(to));
  if (from == to) {
    std::copy(src.begin(), src.end(), dst.begin());
    return;
  }
  if (from == DType::f32) {
    if (to == DType::bf16) return convert_each<float, uint16_t>(src, dst, f32_to_bf16);
    return convert_each<float, uint16_t>(src, dst, f32_to_f16);
  }
  if (to == DType::f32) {
    if (from == DType::bf16) return convert_each<uint16_t, float>(src, dst, bf16_to_f32);
    return convert_each<uint16_t, float>(src, dst, f16_to_f32);
  }
  if (from == DType::bf16) {
    return convert_each<uint16_t, uint16_t>(
        src, dst, [](uint16_t bits) { return f32_to_f16(bf16_to_f32(bits)); });
  }
  convert_each<uint16_t, uint16_t>(
      src, dst, [](uint16_t bits) { return f32_to_bf16(f16_to_f32(bits)); });
}

}  // namespace reprise::weights
