#include "reprise/api/engine_loader.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "reprise/api/cache_events.h"
#include "reprise/api/cache_transfer.h"
#include "reprise/api/compiled_model.h"
#include "reprise/api/cpu_only.h"
#include "reprise/api/draft_engine.h"
#include "reprise/api/draft_model.h"
#include "reprise/api/engine_device.h"
#include "reprise/api/engine_memory.h"
#include "reprise/api/engine_plan.h"
#include "reprise/api/engine_runner.h"
#include "reprise/api/graph_trust.h"
#include "reprise/api/loaded_engine.h"
#include "reprise/api/memory_size.h"
#include "reprise/api/model_programs.h"
#include "reprise/api/model_text.h"
#include "reprise/api/model_weights.h"
#include "reprise/api/rank_options.h"
#include "reprise/api/replay_log.h"
#include "reprise/api/resolved_options.h"
#include "reprise/api/state_caching.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kv_cache/events/kv_event_publisher.h"
#include "reprise/kv_cache/events/kv_event_recorder.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/replay_log/log_writer.h"
#include "reprise/runner/memory_profile.h"

namespace reprise::api {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A model that is being started: the parts that are there so far, and its programs.
struct Start {
  std::unique_ptr<LoadedEngine> engine;
  ModelPrograms programs;
};

template <typename Run>
void run_stage(const char* name,
               const StartupObserver& observer,
               StartupReport& report,
               const Run& run) {
  if (observer.on_stage) observer.on_stage(name);
  const Clock::time_point begin = Clock::now();
  run();
  report.stages.push_back({.name = name, .seconds = seconds_since(begin)});
}

/// A text that is computed whole has to fit into a step. As in vLLM, the default number of tokens
/// of a step then grows to the longest text. Whether it did.
bool makes_room_for_whole_texts(EngineArgs& args, const ResolvedOptions& options) {
  const bool is_default = args.max_num_batched_tokens == EngineArgs{}.max_num_batched_tokens;
  if (!options.config.computes_whole_texts() || !is_default) return false;
  if (options.max_model_len <= args.max_num_batched_tokens) return false;
  args.max_num_batched_tokens = options.max_model_len + 1;  // the vector counts as a token
  return true;
}

std::unique_ptr<ResolvedOptions> resolve(EngineArgs& args) {
  auto options = std::make_unique<ResolvedOptions>(resolve_options(args));
  if (!makes_room_for_whole_texts(args, *options)) return options;
  return std::make_unique<ResolvedOptions>(resolve_options(args, options->files));
}

void report_options(const ResolvedOptions& options, StartupReport& report) {
  report.warnings = options.warnings;
  report.attention = options.attention;
  report.pooling = options.config.pooling;
  report.matryoshka = options.config.matryoshka;
  if (options.config.encoder) {
    report.num_decoder_prompt_tokens =
        static_cast<int32_t>(options.config.encoder->decoder_prompt.size());
  }
  report.resolved = options.graphs;
  report.max_model_len = options.max_model_len;
  report.max_logprobs = options.max_logprobs;
  report.dtype = dtype_name(options.dtype);
}

std::unique_ptr<ModelText> load_text(const EngineArgs& args,
                                     ResolvedOptions& options,
                                     StartupReport& report) {
  const Clock::time_point start = Clock::now();
  auto text = std::make_unique<ModelText>(args,
                                          options.files,
                                          options.generation,
                                          options.end_token_ids,
                                          static_cast<int32_t>(options.config.vocab_size));
  report.classifier = find_classifier(args, text->tokenizer(), options);
  report.tokenizer_seconds = seconds_since(start);
  return text;
}

std::shared_ptr<EngineDevice> open_device(const EngineArgs& args,
                                          const ResolvedOptions& options,
                                          StartupReport& report) {
  auto device = std::make_shared<EngineDevice>(open_engine_device(args, options.isa));
  append_warnings(report.warnings, device->warnings);
  return device;
}

/// `target`: of a draft head, the model that it drafts for; else nullptr.
void load_weights(LoadedEngine& engine,
                  const models::CausalLM* target,
                  const StartupObserver& observer) {
  StartupReport& report = engine.report;
  EngineDevice& device = *engine.device;
  report.device = device.device->description();
  report.device += rank_text(engine.args, engine.options->rank_config);
  report.device_reason = device.fallback_reason;
  report.cpu_isa = device.is_gpu() ? "cuda" : kernels::isa_name(device.isa);
  if (device.is_gpu() && engine.args.kv_cache_dtype == "auto") {
    engine.options->kv_cache_dtype = kv_cache::find_cache_dtype("auto");
  }
  if (device.is_gpu()) refuse_what_needs_the_cpu(engine.args, *engine.options);
  ModelWeights weights =
      load_model_weights(engine.args, *engine.options, device, target, observer, report);
  engine.parameters = std::move(weights.parameters);
  engine.adapter_slots = std::move(weights.adapter_slots);
  engine.expert_counts = std::move(weights.expert_counts);
  engine.model = std::move(weights.model);
  engine.options->files.reset();
}

/// The memory of a model's caches. On a GPU it is what a profile of the largest step leaves.
CacheMemory measure_cache_memory(Start& start) {
  LoadedEngine& engine = *start.engine;
  const EngineArgs& args = engine.args;
  EngineDevice& device = *engine.device;
  if (!device.is_gpu() || args.kv_cache_memory_bytes || args.num_gpu_blocks_override) {
    return cpu_cache_memory(args, device.device->memory());
  }
  // A runner cannot change its cache, so a runner with a tiny cache is made for the memory profile.
  // The real runner reuses the programs compiled for it.
  const size_t budget = gpu_memory_budget(args, device.device->memory());
  const ResolvedOptions& options = *engine.options;
  const cudagraph::DispatcherOptions dispatcher =
      config::dispatcher_options(options.graph_inputs, options.graphs);
  cudagraph::CudagraphDispatcher planner;
  planner.initialize_cudagraph_keys(dispatcher);
  const std::unique_ptr<runner::ModelRunner> profiled = create_runner(
      engine, kv_cache_layout(engine, runner::kProfiledBlocks), runner::profiled_plan(dispatcher));
  start.programs.compile(engine, *profiled);
  engine.report.memory_profile =
      runner::profile_memory(*profiled, *device.execution, planner.capture_plan());
  return gpu_cache_memory(args, budget, *engine.report.memory_profile);
}

/// Gives a part of the memory of the caches to copies of states.
void reserve_snapshots(Start& start, CacheMemory& memory) {
  LoadedEngine& engine = *start.engine;
  const ResolvedOptions& options = *engine.options;
  if (!options.caches_prefixes || options.config.num_recurrent_layers() == 0) return;
  const kv_cache::StateCacheLayout states = state_cache_layout(engine);
  const int64_t num_snapshots = num_state_snapshots(
      engine.args, memory, kv_cache_layout(engine, 1), states, options.max_model_len);
  memory.bytes -= num_snapshots * static_cast<int64_t>(states.bytes_per_slot());
  // A program contains the number of state slots, so those of a memory profile do not fit.
  if (num_snapshots > 0) start.programs.reset();
  engine.report.num_state_snapshots = num_snapshots;
}

/// `draft`: the draft model, which gets as many blocks; nullptr: there is none.
void build_runner(Start& start, const LoadedEngine* draft) {
  LoadedEngine& engine = *start.engine;
  const ResolvedOptions& options = *engine.options;
  StartupReport& report = engine.report;
  if (engine.args.replicas != nullptr && engine.args.is_in_lockstep()) {
    engine.data_parallel = std::make_unique<runner::DataParallelSteps>(*engine.args.replicas);
  }
  CacheMemory memory = without_states(measure_cache_memory(start), state_cache_layout(engine));
  reserve_snapshots(start, memory);
  const kv_cache::KvCacheLayout block = kv_cache_layout(engine, 1);
  if (draft != nullptr) memory = without_draft_cache(memory, block, kv_cache_layout(*draft, 1));
  KvCacheSize size = size_kv_cache(engine.args, block, options.max_model_len, memory);
  if (engine.args.ranks != nullptr) size = agree_on_cache_size(*engine.args.ranks, size);
  const kv_cache::KvCacheLayout layout = kv_cache_layout(engine, size.num_blocks);
  const kv_cache::StateCacheLayout states = state_cache_layout(engine);
  report.kv_cache_dtype = options.kv_cache_dtype.name;
  report.max_model_len = size.max_model_len;
  report.num_kv_blocks = layout.num_blocks;
  report.kv_block_size = engine.args.block_size;
  report.kv_cache_bytes = static_cast<size_t>(layout.num_blocks) * layout.bytes_per_block();
  report.num_state_slots = states.num_slots;
  report.state_cache_bytes = static_cast<size_t>(report.num_state_slots) * states.bytes_per_slot();
  engine.runner = create_runner(
      engine, layout, config::dispatcher_options(options.graph_inputs, options.graphs));
}

void compile(Start& start) {
  start.programs.compile(*start.engine, *start.engine->runner);
  start.programs.report_to(start.engine->report);
}

void add_memory(LoadedEngine& engine) {
  engine.memory = std::make_unique<EngineMemory>(
      *engine.device->device,
      *engine.parameters,
      std::vector{engine.runner->kv_cache().memory(), engine.runner->states().memory()});
}

void build_core(LoadedEngine& engine, LoadedEngine* draft) {
  const ResolvedOptions& options = *engine.options;
  EngineDevice& device = *engine.device;
  if (device.is_gpu()) {
    engine.row_sampler = device.accelerator->create_row_sampler(
        device.execution->stream(),
        engine.args.max_num_seqs * (1 + options.num_speculative_tokens()),
        options.config.vocab_size);
  }
  engine.drafter = create_drafter(engine, draft);
  const bool is_caching = options.caches_prefixes && (options.config.num_recurrent_layers() == 0 ||
                                                      engine.report.num_state_snapshots > 0);
  open_event_publisher(engine, is_caching);
  open_kv_transfer(engine);
  engine::EngineCoreOptions core = core_options(engine, is_caching);
  core.draft_shadow = draft == nullptr ? nullptr : draft->runner->shadow();
  engine.core = std::make_unique<engine::EngineCore>(*engine.runner, core);
  add_memory(engine);
}

/// Bytes of the device's memory that this process did not allocate through `device`.
size_t bytes_used_elsewhere(const device::MemoryInfo& memory) {
  const size_t used = memory.total - memory.free;
  return used - std::min(used, memory.allocated_here);
}

void capture(LoadedEngine& engine, const StartupObserver& observer) {
  EngineDevice& device = *engine.device;
  runner::ModelRunner& runner = *engine.runner;
  StartupReport& report = engine.report;
  const size_t used_elsewhere = bytes_used_elsewhere(device.device->memory());
  report.capture = runner.capture(observer.on_capture);
  require_all_graphs(engine.args, report);
  compile::CompilationCounter& counter = report.compilation.counter;
  counter.num_full_cudagraph_captured = runner.full_wrapper().num_graphs();
  counter.num_cudagraph_captured =
      counter.num_full_cudagraph_captured + runner.num_piecewise_graphs();
  counter.num_gpu_runner_capture_triggers =
      report.resolved.mode == cudagraph::CudagraphMode::NONE ? 0 : 1;
  report.graph_bytes = runner.graph_bytes() + device.execution->graph_pool().reserved_bytes();
  if (device.is_gpu()) {
    report.memory =
        runner::measure_memory(*device.execution, runner, used_elsewhere, report.weight_bytes);
  }
}

void load_draft(const LoadedEngine& main, LoadedEngine& draft) {
  const bool is_head = draft.options->draft_head.has_value();
  if (!is_head) check_same_tokens(main.text->tokenizer(), *draft.options->files);
  draft.device = main.device;
  load_weights(draft, is_head ? main.model.get() : nullptr, {});
}

/// The draft model becomes a part of the engine.
void finish_draft(std::unique_ptr<LoadedEngine> draft, LoadedEngine& main) {
  add_memory(*draft);
  capture(*draft, {});
  for (const std::string& warning : draft->report.warnings) {
    main.report.warnings.push_back("draft model: " + warning);
  }
  main.draft = std::move(draft);
  main.report.draft_model = std::make_shared<const StartupReport>(main.draft->report);
}

}  // namespace

std::unique_ptr<LoadedEngine> load_engine(const EngineArgs& args, const StartupObserver& observer) {
  const Clock::time_point begin = Clock::now();
  require_ranks(args);
  Start main{.engine = begin_engine(args), .programs = ModelPrograms()};
  // Stays without an engine if drafts need no model.
  Start draft{.engine = nullptr, .programs = ModelPrograms("draft")};
  LoadedEngine& engine = *main.engine;
  Descriptor replay_log;
  const auto stage = [&](const char* name, const auto& run) {
    run_stage(name, observer, engine.report, run);
  };
  // Cheap checks come first: a mistyped option is reported before gigabytes of weights are loaded.
  stage("options", [&] {
    engine.options = resolve(engine.args);
    check_graph_trust(engine.args, *engine.options);
    replay_log = open_replay_log(engine.args, *engine.options);
    report_options(*engine.options, engine.report);
    draft.engine = resolve_draft_engine(engine);
    if (draft.engine) report_options(*draft.engine->options, draft.engine->report);
  });
  stage("tokenizer", [&] { engine.text = load_text(engine.args, *engine.options, engine.report); });
  stage("weights", [&] {
    engine.device = open_device(engine.args, *engine.options, engine.report);
    load_weights(engine, nullptr, observer);
  });
  if (draft.engine) stage("draft model", [&] { load_draft(engine, *draft.engine); });
  if (args.enable_lora) {
    stage("adapters", [&] {
      engine.adapters = load_adapters(engine.args, *engine.options, *engine.adapter_slots);
    });
  }
  stage("KV cache", [&] {
    build_runner(main, draft.engine.get());
    if (!draft.engine) return;
    size_draft_cache(engine, *draft.engine);
    build_runner(draft, nullptr);
  });
  stage("compile", [&] {
    compile(main);
    if (draft.engine) compile(draft);
  });
  stage("scheduler", [&] { build_core(engine, draft.engine.get()); });
  stage("graphs", [&] { capture(engine, observer); });
  if (draft.engine) {
    stage("draft graphs", [&] { finish_draft(std::move(draft.engine), engine); });
  }
  start_replay_log(engine, std::move(replay_log));
  engine.report.total_seconds = seconds_since(begin);
  return std::move(main.engine);
}

EnginePlan plan_engine(const EngineArgs& args) {
  const std::unique_ptr<LoadedEngine> engine = begin_engine(args);
  engine->options = resolve(engine->args);
  const ResolvedOptions& options = *engine->options;
  EnginePlan plan{.main = {.inputs = options.graph_inputs, .resolved = options.graphs},
                  .draft = std::nullopt,
                  .warnings = options.warnings};
  if (const std::unique_ptr<LoadedEngine> draft = resolve_draft_engine(*engine)) {
    plan.draft = {.inputs = draft->options->graph_inputs, .resolved = draft->options->graphs};
  }
  return plan;
}

CompiledModel compile_only(const EngineArgs& args) {
  const Clock::time_point begin = Clock::now();
  EngineArgs uncached = args;
  uncached.disable_compile_cache = true;
  uncached.packed_weights_cache = "none";
  Start start{.engine = begin_engine(uncached), .programs = ModelPrograms()};
  start.programs.keep_stages();
  LoadedEngine& engine = *start.engine;
  engine.options = resolve(engine.args);
  report_options(*engine.options, engine.report);
  // A draft head decides which hidden states the main model gives.
  (void)resolve_draft_engine(engine);
  engine.device = open_device(engine.args, *engine.options, engine.report);
  load_weights(engine, nullptr, {});
  build_runner(start, nullptr);
  compile(start);
  CompiledModel result{.report = std::move(engine.report), .stages = start.programs.take_stages()};
  // compile_only() does not use the cache, so the report must not say that the cache is disabled.
  result.report.compilation.cache_outcome.clear();
  result.report.compilation.cache_saved.clear();
  result.report.total_seconds = seconds_since(begin);
  return result;
}

}  // namespace reprise::api
