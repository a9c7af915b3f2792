#pragma once

#include <cstdint>

namespace reprise::kv_cache {

/// Identity of one KV cache block: row `BlockId` of every layer's cache tensor. The underlying type
/// is what block tables on the device hold.
enum class BlockId : int32_t {};

/// The reserved null block. Never handed out; padding rows of a batch write and read here, so a
/// replayed graph of a larger shape cannot touch a live block.
inline constexpr BlockId kNullBlock{0};

}  // namespace reprise::kv_cache
