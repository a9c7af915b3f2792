#pragma once

#include <cstdint>

namespace reprise::kv_cache {

/// Identity of one KV cache block: row `BlockId` of every layer's cache tensor. Block tables on the
/// device hold the underlying type.
enum class BlockId : int32_t {};

/// The reserved null block. The pool never hands it out. Padding rows of a batch read and write it,
/// so a replayed graph of a larger shape cannot touch a live block.
inline constexpr BlockId kNullBlock{0};

}  // namespace reprise::kv_cache
