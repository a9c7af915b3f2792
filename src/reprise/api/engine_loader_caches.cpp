// The part of the engine loader that divides the memory of caches.
#include <fmt/format.h>

#include "reprise/api/draft_head.h"
#include "reprise/api/engine_loader.h"
#include "reprise/api/loaded_engine.h"
#include "reprise/api/resolved_options.h"
#include "reprise/api/state_caching.h"
#include "reprise/compile/model/model_compiler.h"
#include "reprise/runner/expert_counts.h"
#include "reprise/runner/model_attention.h"

namespace reprise::api {

kv_cache::KvCacheLayout EngineLoader::kv_cache_layout(int64_t num_blocks) const {
  const ResolvedOptions& options = *engine_->options;
  return engine::kv_cache_layout_of(options.rank_config,
                                    num_blocks,
                                    engine_->args.block_size,
                                    options.dtype,
                                    options.kv_cache_dtype);
}

kv_cache::StateCacheLayout EngineLoader::state_cache_layout() const {
  return engine::state_cache_layout_of(engine_->options->config,
                                       engine_->args.max_num_seqs + num_snapshots_);
}

// The type of the cache, and the scales that the ops of a program contain.
std::string EngineLoader::kv_cache_text() const {
  std::string text(engine_->options->kv_cache_dtype.name);
  // A program contains the number of state slots.
  const kv_cache::StateCacheLayout states = state_cache_layout();
  if (states.num_layers > 0) text += fmt::format(",{} states", states.num_slots);
  text += draft_head_text(*engine_->options);
  if (engine_->expert_counts) text += ",experts are counted";
  if (!engine_->options->kv_cache_dtype.is_quantized()) return text;
  for (const attention::AttentionLayer* layer : engine_->model->attention_layers()) {
    text += fmt::format(",{:a},{:a}", layer->shape().k_scale, layer->shape().v_scale);
  }
  return text;
}

void EngineLoader::reserve_snapshots(CacheMemory& memory) {
  const ResolvedOptions& options = *engine_->options;
  if (!options.caches_prefixes || options.config.num_recurrent_layers() == 0) return;
  num_snapshots_ = num_state_snapshots(
      engine_->args, memory, kv_cache_layout(1), state_cache_layout(), options.max_model_len);
  memory.bytes -= num_snapshots_ * static_cast<int64_t>(state_cache_layout().bytes_per_slot());
  if (num_snapshots_ > 0) {
    // A program contains the number of state slots, so those of a memory profile do not fit.
    compiler_.reset();
    adapter_compiler_.reset();
  }
  engine_->report.num_state_snapshots = num_snapshots_;
}

}  // namespace reprise::api
