#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/tensor/dtype.h"
#include "reprise/weights/gguf/block_format.h"
#include "reprise/weights/gguf/header.h"
#include "reprise/weights/gguf/tensor_names.h"

namespace reprise::weights::gguf {

/// The element type as which a tensor of this format is reported.
[[nodiscard]] DType stored_dtype(BlockFormat format) noexcept;
/// Whether the format has blocks that share a scale.
[[nodiscard]] bool is_quantised(BlockFormat format) noexcept;

/// Turns stored rows of tensors into rows of one element type. Keeps one row in memory.
class RowDecoder {
 public:
  /// `path`: of the model, for messages.
  RowDecoder(std::string path, ValueChange change, uint64_t row_elements, DType dtype)
      : path_(std::move(path)), change_(change), dtype_(dtype), values_(row_elements) {}

  /// \throws FileError E_VALUE for a number that the change is not defined for
  void decode(const TensorInfo& tensor, std::span<const std::byte> row, std::span<std::byte> dst);
  /// The next call overwrites the result. \throws as decode()
  [[nodiscard]] std::span<const float> floats(const TensorInfo& tensor,
                                              std::span<const std::byte> row);

 private:
  std::string path_;
  ValueChange change_;
  DType dtype_;
  std::vector<float> values_;
};

}  // namespace reprise::weights::gguf
