#include "reprise/runner/model_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace reprise::runner {

namespace {

enum class LayerPart : uint8_t { attention, recurrence };

bool has_part(const weights::ModelConfig& model, int64_t layer, LayerPart part) {
  return part == LayerPart::recurrence ? model.has_recurrence(layer) : model.has_attention(layer);
}

attention::AttentionKind kind_of(const weights::ModelConfig& model, LayerPart part) {
  if (part == LayerPart::attention) {
    return model.mla ? attention::AttentionKind::latent : attention::AttentionKind::key_value;
  }
  switch (model.recurrent->recurrence) {
    case weights::Recurrence::mamba1:
      return attention::AttentionKind::mamba1;
    case weights::Recurrence::mamba2:
      return attention::AttentionKind::mamba2;
    case weights::Recurrence::gated_delta_net:
      return attention::AttentionKind::gated_delta_net;
    case weights::Recurrence::short_conv:
      break;
  }
  return attention::AttentionKind::short_conv;
}

}  // namespace

std::vector<attention::AttentionKind> layer_kinds_of(const weights::ModelConfig& model) {
  std::vector<attention::AttentionKind> kinds;
  for (const LayerPart part : {LayerPart::attention, LayerPart::recurrence}) {
    bool is_there = false;
    for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
      is_there = is_there || has_part(model, layer, part);
    }
    if (is_there) kinds.push_back(kind_of(model, part));
  }
  return kinds;
}

attention::AttentionKind attention_kind_of(const weights::ModelConfig& model) {
  return layer_kinds_of(model).front();
}

std::vector<attention::LayerBackend> layer_backends(const weights::ModelConfig& model,
                                                    const attention::BackendInfo* chosen) {
  std::vector<attention::LayerBackend> backends;
  for (const LayerPart part : {LayerPart::attention, LayerPart::recurrence}) {
    attention::LayerBackend entry;
    for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
      if (has_part(model, layer, part)) entry.layers.push_back(layer);
    }
    if (entry.layers.empty()) continue;
    const bool takes_chosen = chosen != nullptr && backends.empty();
    entry.backend =
        takes_chosen ? chosen : &attention::find_attention_backend("auto", 0, kind_of(model, part));
    backends.push_back(std::move(entry));
  }
  return backends;
}

std::vector<cudagraph::AttentionBackendSupport> attention_groups(
    std::span<const attention::LayerBackend> backends) {
  std::vector<cudagraph::AttentionBackendSupport> groups;
  for (const attention::LayerBackend& entry : backends) {
    std::string text;
    for (size_t i = 0; i < entry.layers.size();) {
      size_t last = i;
      while (last + 1 < entry.layers.size() && entry.layers[last + 1] == entry.layers[last] + 1) {
        ++last;
      }
      text += fmt::format("{}{}", text.empty() ? "" : ", ", entry.layers[i]);
      if (last > i) text += fmt::format("-{}", entry.layers[last]);
      i = last + 1;
    }
    groups.push_back({.backend = std::string(entry.backend->name),
                      .support = entry.backend->support,
                      .layers = std::move(text),
                      .full_graph_sets = entry.backend->full_graph_sets});
  }
  return groups;
}

kv_cache::StateCacheLayout state_cache_layout_of(const weights::ModelConfig& model,
                                                 int64_t num_slots,
                                                 int64_t slots_per_req) {
  if (model.num_recurrent_layers() == 0) return {};
  const weights::RecurrentConfig& layers = *model.recurrent;
  const bool is_delta_net = layers.recurrence == weights::Recurrence::gated_delta_net;
  return {.num_layers = model.num_recurrent_layers(),
          .num_slots = num_slots + 1,
          .slots_per_req = slots_per_req,
          .conv_inputs = layers.conv_kernel - 1,
          .conv_size = layers.conv_size(),
          .num_heads = layers.state_size == 0 ? 0 : layers.num_heads,
          .head_rows = is_delta_net ? layers.state_size : layers.head_dim,
          .head_columns = is_delta_net ? layers.head_dim : layers.state_size};
}

namespace {

// The heads of each layer with keys and values; empty: all layers have the same heads.
std::vector<kv_cache::CacheHeads> layer_heads_of(const weights::ModelConfig& model) {
  if (!model.full_heads) return {};
  std::vector<kv_cache::CacheHeads> all;
  for (int64_t layer = model.first_layer(); layer < model.end_layer(); ++layer) {
    if (!model.has_attention(layer) || model.shares_kv(layer)) continue;
    const weights::KeyValueHeads heads = model.heads_of_layer(layer);
    all.push_back({.count = heads.count, .head_dim = heads.head_dim});
  }
  return all;
}

}  // namespace

kv_cache::KvCacheLayout kv_cache_layout_of(const weights::ModelConfig& model,
                                           int64_t num_blocks,
                                           int64_t block_size,
                                           DType dtype,
                                           const kv_cache::CacheDType& cache) {
  const weights::KeyValueHeads full = model.full_heads.value_or(weights::KeyValueHeads{});
  return {
      .num_layers = model.num_attention_layers(),
      .num_blocks = num_blocks,
      .num_kv_heads = model.mla ? 1 : std::max(model.num_key_value_heads, full.count),
      .block_size = block_size,
      .head_dim = model.mla ? model.mla->cache_row_size() : std::max(model.head_dim, full.head_dim),
      .layer_heads = layer_heads_of(model),
      .has_values = !model.mla,
      .dtype = cache.dtype.value_or(dtype),
      .has_row_scales = cache.has_row_scales};
}

}  // namespace reprise::runner
