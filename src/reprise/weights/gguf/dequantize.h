#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/tensor/block_panels.h"  // kIq4Values
#include "reprise/weights/gguf/block_format.h"

namespace reprise::weights::gguf {

/// Writes the values of whole blocks of any format as float32: the reference for every faster path.
/// Products are rounded once each, as in ggml and in the PyPI package `gguf`.
/// \pre `blocks` is a whole number of blocks, and `out` has their elements.
void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> out);

// One block of 256 elements each (see dequantize_k.cpp).
void dequantize_q2_k(const std::byte* block, float* out);
void dequantize_q3_k(const std::byte* block, float* out);
void dequantize_q4_k(const std::byte* block, float* out);
void dequantize_q5_k(const std::byte* block, float* out);
void dequantize_q6_k(const std::byte* block, float* out);
void dequantize_iq4_xs(const std::byte* block, float* out);

}  // namespace reprise::weights::gguf
