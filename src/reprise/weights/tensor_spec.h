#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/tensor/dtype.h"

namespace reprise::weights {

/// Element type and extents of a weight, outermost extent first.
struct TensorSpec {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;

  bool operator==(const TensorSpec&) const = default;
};

/// shape x dtype in bytes, or nothing when that does not fit in 64 bits.
[[nodiscard]] std::optional<uint64_t> checked_size_bytes(const TensorSpec& spec) noexcept;

/// Like checked_size_bytes for a spec that was validated before.
[[nodiscard]] uint64_t size_bytes(const TensorSpec& spec);

/// The rows of a matrix [rows, columns], or of all matrices [matrices, rows, columns].
/// \pre two or more dimensions
[[nodiscard]] int64_t num_matrix_rows(const TensorSpec& spec);

/// "[151936, 896]".
[[nodiscard]] std::string shape_text(std::span<const int64_t> shape);

/// `text` for an error message: at most 128 visible ASCII characters, everything else replaced, so
/// that a hostile file cannot write into a terminal or flood a log.
[[nodiscard]] std::string visible(std::string_view text);

}  // namespace reprise::weights
