#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {

/// One tensor of a safetensors file.
///
/// A tensor of F64 has the spec of float32, and is read as such: torch too converts float64 to a
/// 16-bit type by way of float32 (measured with torch 2.13), so every reader gets its numbers.
struct TensorEntry {
  std::string name;
  TensorSpec spec;
  uint64_t begin = 0;  // bytes from the start of the data section, not of the file
  uint64_t end = 0;
  bool is_f64 = false;

  /// The size of what a read gives, in the element type of `spec`.
  [[nodiscard]] uint64_t size_bytes() const noexcept {
    return is_f64 ? (end - begin) / 2 : end - begin;
  }
};

/// Reads and fully validates the JSON header of a safetensors file that holds `data_bytes` bytes
/// after the header, and returns its tensors in file order. The tensors of an accepted header lie
/// inside the data, do not overlap, leave no gap and cover the data to the last byte.
///
/// Source: https://github.com/huggingface/safetensors (README, "Format";
/// safetensors/src/tensor.rs). Differs in that repeated names and unknown members are refused.
/// \throws FileError with `path` and one of E_HEADER_JSON, E_DTYPE, E_SHAPE, E_OFFSET, E_OVERLAP,
///         E_GAP, E_TRAILING, E_TRUNCATED, E_DUPLICATE.
[[nodiscard]] std::vector<TensorEntry> parse_safetensors_header(std::string_view json,
                                                                uint64_t data_bytes,
                                                                std::string_view path);

}  // namespace reprise::weights
