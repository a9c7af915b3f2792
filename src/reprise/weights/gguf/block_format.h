#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::weights::gguf {

/// Element types of GGUF tensors. The enumerators have the values in the file.
enum class BlockFormat : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
  mxfp4 = 39,
};

/// A row of a tensor is a list of blocks; a block holds `num_elements` in `bytes`.
struct BlockSize {
  uint32_t num_elements = 1;
  uint32_t bytes = 0;
};

/// The format of this number in a file, or nothing when it cannot be read.
[[nodiscard]] std::optional<BlockFormat> block_format_of(uint32_t number) noexcept;
/// "Q4_0"
[[nodiscard]] std::string_view block_format_name(BlockFormat format) noexcept;
[[nodiscard]] BlockSize block_size(BlockFormat format) noexcept;
/// "F32, F16, Q4_0, ...", for messages.
[[nodiscard]] std::string_view block_format_list() noexcept;

}  // namespace reprise::weights::gguf
