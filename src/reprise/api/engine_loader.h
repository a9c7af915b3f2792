#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/api/engine_args.h"
#include "reprise/api/startup_report.h"

namespace reprise::compile {
class ModelCompiler;
}

namespace reprise::cudagraph {
struct DispatcherOptions;
}  // namespace reprise::cudagraph

namespace reprise::kv_cache {
struct KvCacheLayout;
struct StateCacheLayout;
}  // namespace reprise::kv_cache

namespace reprise::engine {
class ModelRunner;
}

namespace reprise::models {
class CausalLM;
struct ExpertCounting;
}  // namespace reprise::models

namespace reprise::weights {
class WeightSource;
}

namespace reprise::api {

struct CacheMemory;
struct CompiledModel;
struct LoadedEngine;

/// Loads an engine in stages: options, tokenizer, weights, KV cache, compile, scheduler, graphs.
class EngineLoader {
 public:
  /// Loads, compiles, captures and seals.
  /// \throws InvalidArgument (bad options, files), OutOfMemory, device::DeviceError
  [[nodiscard]] static std::unique_ptr<LoadedEngine> load(const EngineArgs& args,
                                                          const StartupObserver& observer = {});
  /// Loads and compiles like load(), but neither reads nor writes the compile cache. Needs no
  /// tokenizer. \throws as load()
  [[nodiscard]] static CompiledModel compile_only(const EngineArgs& args);

  EngineLoader(const EngineLoader&) = delete;
  EngineLoader& operator=(const EngineLoader&) = delete;
  ~EngineLoader();

 private:
  EngineLoader(const EngineArgs& args, const StartupObserver& observer);

  void resolve();
  void report_options();
  void load_text();
  void load_model();
  [[nodiscard]] std::unique_ptr<models::CausalLM> create_loaded_model(
      const weights::WeightSource& source);
  void reserve_adapters();
  void load_adapters();
  void build_runner();
  void compile();
  void build_core();
  void add_memory();
  void capture();
  // The draft model, if --speculative-config names one.
  void resolve_draft();
  void load_draft();
  void build_draft_runner();
  void build_drafter();
  void build_head_drafter();
  void finish_draft();
  template <typename Run>
  void run_stage(const char* name, const Run& run);

  [[nodiscard]] kv_cache::StateCacheLayout state_cache_layout() const;
  [[nodiscard]] kv_cache::KvCacheLayout kv_cache_layout(int64_t num_blocks) const;
  [[nodiscard]] std::string kv_cache_text() const;
  /// Makes room for counts of the tokens of experts, if they are asked for.
  [[nodiscard]] const models::ExpertCounting* reserve_expert_counts();
  /// Gives a part of the memory of the caches to copies of states.
  void reserve_snapshots(CacheMemory& memory);
  [[nodiscard]] CacheMemory cache_memory();
  [[nodiscard]] std::unique_ptr<engine::ModelRunner> create_runner(
      const kv_cache::KvCacheLayout& layout, const cudagraph::DispatcherOptions& dispatcher);
  void compile(engine::ModelRunner& runner);
  [[nodiscard]] std::unique_ptr<compile::ModelCompiler> create_compiler(std::string adapters);

  const StartupObserver& observer_;
  StartupObserver no_observer_;
  std::unique_ptr<LoadedEngine> engine_;
  std::unique_ptr<compile::ModelCompiler> compiler_;  // nullptr at level 0
  // Of the forward for batches with adapters; nullptr at level 0 and without adapters.
  std::unique_ptr<compile::ModelCompiler> adapter_compiler_;
  std::unique_ptr<EngineLoader> draft_;       // nullptr: drafts need no model
  int64_t num_snapshots_ = 0;                 // of states of recurrent layers
  const models::CausalLM* target_ = nullptr;  // of a draft head: the main model
  bool keeps_stages_ = false;
};

}  // namespace reprise::api
