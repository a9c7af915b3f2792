#include "reprise/weights/tensor_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reprise/base/assert.h"

namespace reprise::weights {

std::optional<uint64_t> checked_size_bytes(const TensorSpec& spec) noexcept {
  uint64_t bytes = dtype_bytes(spec.dtype);
  for (const int64_t extent : spec.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

uint64_t size_bytes(const TensorSpec& spec) {
  const std::optional<uint64_t> bytes = checked_size_bytes(spec);
  REPRISE_ASSERT(bytes.has_value(), "shape {} was not validated", shape_text(spec.shape));
  return *bytes;
}

int64_t num_matrix_rows(const TensorSpec& spec) {
  int64_t rows = 1;
  for (const int64_t extent : std::span(spec.shape).first(spec.shape.size() - 1)) rows *= extent;
  return rows;
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string visible(std::string_view text) {
  constexpr size_t kMaxCharacters = 128;
  std::string shown(text.substr(0, kMaxCharacters));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > kMaxCharacters) shown.append("...");
  return shown;
}

}  // namespace reprise::weights
