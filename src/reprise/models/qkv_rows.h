#pragma once

#include <cstdint>
#include <vector>

#include "reprise/weights/config/model_config.h"

namespace reprise::models {

/// The op `rope` rotates element i of a head against element head_dim / 2 + i. A model that rotates
/// other pairs, or only part of a head, can use the same op if the elements of its q and k are
/// loaded in another order: scores are sums over the elements of a head, so they stay the same.
/// These functions give that order, and the order of q, k and v in a fused projection.

/// For each element of a loaded head of q or k, its place in the stored head.
[[nodiscard]] std::vector<int64_t> rotated_head_order(const weights::RopeParameters& rope,
                                                      int64_t head_dim);

/// For each row of the loaded q, k and v, stacked in this order, its row in the stack of the stored
/// tensors. Empty: the rows are stored in the order in which they are loaded.
[[nodiscard]] std::vector<int64_t> qkv_rows(const weights::ModelConfig& config, int64_t layer);

/// The same for the weight of a norm over `num_heads` heads of q or k.
[[nodiscard]] std::vector<int64_t> head_norm_rows(const weights::ModelConfig& config,
                                                  int64_t layer,
                                                  int64_t num_heads);

}  // namespace reprise::models
