#include "reprise/weights/gguf/row_decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/gguf/dequantize.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {

DType stored_dtype(BlockFormat format) noexcept {
  if (format == BlockFormat::f16) return DType::f16;
  if (format == BlockFormat::bf16) return DType::bf16;
  return DType::f32;
}

bool is_quantised(BlockFormat format) noexcept {
  return format != BlockFormat::f32 && format != BlockFormat::f16 && format != BlockFormat::bf16;
}

void RowDecoder::decode(const TensorInfo& tensor,
                        std::span<const std::byte> row,
                        std::span<std::byte> dst) {
  if (!is_quantised(tensor.format) && change_ == ValueChange::none) {
    return convert(stored_dtype(tensor.format), row, dtype_, dst);
  }
  convert(DType::f32, std::as_bytes(floats(tensor, row)), dtype_, dst);
}

std::span<const float> RowDecoder::floats(const TensorInfo& tensor,
                                          std::span<const std::byte> row) {
  if (is_quantised(tensor.format)) {
    dequantize(tensor.format, row, values_);
  } else {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values_));
    convert(stored_dtype(tensor.format), row, DType::f32, bytes);
  }
  if (change_ == ValueChange::minus_one) {
    for (float& value : values_) value -= 1;
  } else if (change_ == ValueChange::log_of_negative) {
    for (float& value : values_) {
      if (!(value <= 0)) {
        throw FileError("E_VALUE",
                        path_,
                        visible(tensor.name),
                        fmt::format("has {}, expected no number above 0", value));
      }
      value = std::log(-value);
    }
  }
  return values_;
}

}  // namespace reprise::weights::gguf
