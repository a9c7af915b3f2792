#pragma once

#include <cstdint>

namespace reprise::kv_cache {

/// The number of a KV cache block: block n is row n of every layer's cache tensors. Block tables on
/// the device hold this number as int32.
enum class BlockId : int32_t {};

/// The reserved null block. The pool never allocates it. The padding rows of a batch read and write
/// it, so a graph that is replayed for a larger shape than the batch never touches a block that a
/// request owns.
inline constexpr BlockId kNullBlock{0};

}  // namespace reprise::kv_cache
