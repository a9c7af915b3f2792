#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/compile/model/compilation_report.h"
#include "reprise/config/resolved_config.h"
#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/runner/memory_report.h"
#include "reprise/weights/config/pooling_type.h"

namespace reprise::attention {
struct BackendInfo;
}

namespace reprise::api {

struct ProductReport;

/// What --gpu-memory-utilization allows weights, caches, activations and graphs to take together,
/// with all else that is in the device's memory.
struct MemoryBudget {
  int64_t total = 0;  // the device's memory, or the tightest limit of this process
  int64_t bytes = 0;
  std::string limit;  // the name of that limit; empty: there is none
};

/// One stage of a start.
struct StartupStage {
  std::string name;
  double seconds = 0;
};

/// Decisions and measurements of an engine's start. Times in seconds.
struct StartupReport {
  std::string device;
  std::string device_reason;  // why a supported device is not used; may be empty
  std::string cpu_isa;
  std::string dtype;
  std::string kv_cache_dtype;  // "auto", or the value of --kv-cache-dtype
  int64_t num_parameters = 0;
  size_t weight_bytes = 0;
  /// The kernels of products that were chosen by measurement. Shared, because reports are copied.
  /// nullptr: rules choose all of them, or the start has not come to this yet.
  std::shared_ptr<const ProductReport> products;
  std::string packed_weights;  // what --packed-weights-cache did; empty without the option
  int64_t num_kv_blocks = 0;
  int32_t kv_block_size = 0;
  size_t kv_cache_bytes = 0;
  int64_t num_state_slots = 0;      // state slots of recurrent layers, including the null slot
  int64_t num_state_snapshots = 0;  // slots of these that serve prefix caching
  size_t state_cache_bytes = 0;
  int32_t max_model_len = 0;
  int32_t max_logprobs = 0;  // the most that a request may ask for
  double tokenizer_seconds = 0;
  double weights_seconds = 0;
  double compile_seconds = 0;  // tracing and compiling, or loading from the compile cache
  double total_seconds = 0;
  std::vector<StartupStage> stages;               // in order; they sum to almost total_seconds
  std::optional<weights::PoolingConfig> pooling;  // of a model that makes vectors of texts
  std::optional<weights::MatryoshkaConfig> matryoshka;  // of one whose vectors may be cut
  std::optional<weights::ClassifierConfig> classifier;  // of one that gives scores of labels
  /// For a model whose prompts are texts of an encoder: the tokens with which each answer begins.
  /// 0: the model has no encoder.
  int32_t num_decoder_prompt_tokens = 0;
  const attention::BackendInfo* attention = nullptr;  // an entry of the list of backends
  std::string attention_kernels;  // whose kernels a GPU runs, and why; empty on a CPU
  config::ResolvedConfig resolved;
  compile::CompilationReport compilation;
  cudagraph::CaptureReport capture;
  size_t graph_bytes = 0;  // executable graphs and their memory pool
  /// The use of memory after the caches were allocated, including that of the draft model.
  runner::MemoryParts memory;
  MemoryBudget memory_budget;
  std::vector<std::string> warnings;
  /// The start of the draft model; nullptr if there is none. Shared, because reports are copied.
  std::shared_ptr<const StartupReport> draft_model;
};

/// Callbacks during the start of an engine; each may be empty.
struct StartupObserver {
  std::function<void(const cudagraph::CaptureRecord&, size_t done, size_t total)> on_capture;
  std::function<void(std::string_view name)> on_stage;  // when a stage begins
  /// Bytes of weights in the file. Tied weights are not read, so `done` may stay below `total`.
  std::function<void(uint64_t done, uint64_t total)> on_weights;
};

}  // namespace reprise::api
