#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/gguf/block_format.h"
#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// One tensor of a file.
struct TensorInfo {
  std::string name;  // GGUF naming: "blk.0.attn_q.weight"
  BlockFormat format = BlockFormat::f32;
  // Outermost extent first, as in TensorSpec; the file has the reverse order.
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // byte of the file
  uint64_t bytes = 0;

  [[nodiscard]] int64_t row_elements() const { return shape.back(); }
  [[nodiscard]] uint64_t row_bytes() const {
    const BlockSize block = block_size(format);
    return static_cast<uint64_t>(row_elements()) / block.num_elements * block.bytes;
  }
};

struct Header {
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in the order of the file
};

/// Fills `dst` with the bytes of the file from `offset`. \throws FileError E_TRUNCATED, E_IO
using ReadAt = std::function<void(uint64_t offset, std::span<std::byte> dst)>;

/// Reads and fully validates the header of a GGUF file of `file_bytes` bytes. The tensors of an
/// accepted header lie inside the file, are aligned, and do not overlap; no allocation is larger
/// than the bytes of the file that it stands for, but for a constant factor.
///
/// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Differs in that repeated
/// keys, arrays of arrays and overlapping tensors are refused.
/// \throws FileError with `path` and one of E_MAGIC, E_VERSION, E_TRUNCATED, E_TOO_LARGE, E_TYPE,
///         E_VALUE, E_DUPLICATE, E_DTYPE, E_SHAPE, E_OFFSET, E_OVERLAP, E_CONFIG
[[nodiscard]] Header read_header(const ReadAt& read_at, uint64_t file_bytes, std::string_view path);

}  // namespace reprise::weights::gguf
