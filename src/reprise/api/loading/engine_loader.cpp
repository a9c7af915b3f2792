#include "reprise/api/loading/engine_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/api/loading/cache_events.h"
#include "reprise/api/loading/cache_transfer.h"
#include "reprise/api/loading/compiled_model.h"
#include "reprise/api/loading/cpu_only.h"
#include "reprise/api/loading/draft_engine.h"
#include "reprise/api/loading/draft_model.h"
#include "reprise/api/loading/engine_caches.h"
#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/engine_memory.h"
#include "reprise/api/loading/engine_runner.h"
#include "reprise/api/loading/graph_trust.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/memory_bill.h"
#include "reprise/api/loading/model_programs.h"
#include "reprise/api/loading/model_weights.h"
#include "reprise/api/loading/product_tuning.h"
#include "reprise/api/loading/replay_log.h"
#include "reprise/api/loading/weight_files.h"
#include "reprise/api/options/attention_kernels.h"
#include "reprise/api/options/engine_plan.h"
#include "reprise/api/options/memory_size.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kv_cache/events/kv_event_publisher.h"
#include "reprise/kv_cache/events/kv_event_recorder.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/models/draft_head.h"
#include "reprise/replay_log/log_writer.h"
#include "reprise/runner/memory_report.h"
#include "reprise/runner/model_runner.h"
#include "reprise/runner/rank_steps.h"

namespace reprise::api {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A model that is being started: the parts that are ready so far, and its programs.
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

/// A text that must be computed in one step has to fit into it. As in vLLM, the default number of
/// tokens of a step then grows to the longest text. Returns whether it did.
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
  if (device->is_gpu()) {
    report.attention_kernels =
        attention_kernels_text(args, options, device->accelerator->has_library_attention());
  }
  return device;
}

/// Returns the replay log, if there is to be one. \throws InvalidArgument for options that this
/// model or this kind of engine cannot follow
Descriptor check_options(LoadedEngine& engine) {
  check_graph_trust(engine.args, *engine.options);
  check_tuning(engine);
  Descriptor replay_log = open_replay_log(engine.args, *engine.options);
  report_options(*engine.options, engine.report);
  return replay_log;
}

void check_options_of_device(const LoadedEngine& engine) {
  if (engine.device->is_gpu()) refuse_what_needs_the_cpu(engine.args);
}

int64_t planned_weight_bytes(LoadedEngine& engine, const EngineDevice& device) {
  const ResolvedOptions& options = *engine.options;
  const std::unique_ptr<weights::WeightSource> source =
      open_engine_weights(engine.args, *engine.options, engine.report.warnings);
  return weight_bytes(
      *source, options.rank_config, options.dtype, device.execution->executor().weight_families());
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
  check_options_of_device(engine);
  ModelWeights weights =
      load_model_weights(engine.args, *engine.options, device, target, observer, report);
  engine.parameters = std::move(weights.parameters);
  engine.adapter_slots = std::move(weights.adapter_slots);
  engine.expert_counts = std::move(weights.expert_counts);
  engine.model = std::move(weights.model);
  engine.options->files.reset();
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

/// Runs or records the largest step, so that the eager pool has its memory. On a GPU the step
/// really runs, because this also loads code.
void take_activations(LoadedEngine& engine) {
  if (engine.device->is_gpu()) return engine.runner->run_largest_step();
  try {
    engine.runner->run_largest_step(runner::StepWork::recorded);
  } catch (const device::CaptureError&) {
    // The plug-ins of a user may do things that cannot be recorded.
    engine.runner->run_largest_step();
  }
}

/// A GPU chooses tokens itself. `rows_per_req`: of logits, in one step. `most_counted`: requests
/// whose tokens may be counted for penalties; drafts have none
void create_row_sampler(LoadedEngine& engine,
                        int32_t rows_per_req,
                        int64_t vocab_size,
                        int32_t most_counted) {
  EngineDevice& device = *engine.device;
  if (!device.is_gpu()) return;
  engine.row_sampler =
      device.accelerator->create_row_sampler(device.execution->stream(),
                                             engine.args.max_num_seqs * rows_per_req,
                                             vocab_size,
                                             most_counted);
}

/// Allocates all memory of the device that steps will need. The caches get what is left.
void take_memory_of_steps(LoadedEngine& engine) {
  const ResolvedOptions& options = *engine.options;
  create_row_sampler(engine,
                     1 + options.num_speculative_tokens(),
                     options.config.vocab_size,
                     engine.args.max_num_seqs);
  try {
    take_activations(engine);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        fmt::format("the largest step does not fit beside the weights; give a smaller "
                    "--max-num-batched-tokens or --max-num-seqs, or a smaller model: {}",
                    error.what()));
  }
}

void capture(LoadedEngine& engine, const StartupObserver& observer) {
  runner::ModelRunner& runner = *engine.runner;
  StartupReport& report = engine.report;
  // The second runner must capture the same graphs as the first, whose memory was measured.
  const std::optional<cudagraph::LadderReport> known = std::move(report.capture.ladder);
  report.capture = runner.capture(observer.on_capture, known ? &*known : nullptr);
  require_memory_for_graphs(report);
  require_all_graphs(engine.args, report);
  compile::CompilationCounter& counter = report.compilation.counter;
  counter.num_full_cudagraph_captured = runner.full_wrapper().num_graphs();
  counter.num_cudagraph_captured =
      counter.num_full_cudagraph_captured + runner.num_piecewise_graphs();
  counter.num_gpu_runner_capture_triggers =
      report.resolved.mode == cudagraph::CudagraphMode::NONE ? 0 : 1;
  report.graph_bytes =
      runner.graph_bytes() + engine.device->execution->graph_pool().reserved_bytes();
}

void report_memory(LoadedEngine& engine, const LoadedEngine* draft, size_t used_elsewhere) {
  EngineDevice& device = *engine.device;
  std::vector<const runner::ModelRunner*> runners = {engine.runner.get()};
  size_t weights = engine.report.weight_bytes;
  if (draft != nullptr) {
    runners.push_back(draft->runner.get());
    weights += draft->report.weight_bytes;
  }
  engine.report.memory =
      runner::measure_memory(*device.execution, runners, used_elsewhere, weights);
}

void load_draft(const LoadedEngine& main, LoadedEngine& draft) {
  const bool is_head = draft.options->draft_head.has_value();
  if (!is_head) check_same_tokens(main.text->tokenizer(), *draft.options->files);
  draft.device = main.device;
  load_weights(draft, is_head ? main.model.get() : nullptr, {});
}

/// The same for a draft model, which makes one draft of each request in a step.
void take_memory_of_draft_steps(LoadedEngine& draft) {
  const auto* head = dynamic_cast<const models::DraftHead*>(draft.model.get());
  const bool has_own_tokens = head != nullptr && !head->target_ids().empty();
  create_row_sampler(draft,
                     1,
                     has_own_tokens ? static_cast<int64_t>(head->target_ids().size())
                                    : draft.options->config.vocab_size,
                     0);
  take_activations(draft);
}

/// The draft model becomes a part of the engine.
void finish_draft(std::unique_ptr<LoadedEngine> draft, LoadedEngine& main) {
  add_memory(*draft);
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
  // `engine` stays empty if drafts need no model.
  Start draft{.engine = nullptr, .programs = ModelPrograms("draft")};
  LoadedEngine& engine = *main.engine;
  Descriptor replay_log;
  const auto stage = [&](const char* name, const auto& run) {
    run_stage(name, observer, engine.report, run);
  };
  // Cheap checks come first: a mistyped option is reported before gigabytes of weights are loaded.
  stage("options", [&] {
    engine.options = resolve(engine.args);
    replay_log = check_options(engine);
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
  stage("KV cache", [&] { reserve_caches(engine, draft.engine.get()); });
  size_t used_elsewhere = 0;
  const auto prepare_steps = [&] {
    stage("compile", [&] {
      compile(main);
      if (draft.engine) compile(draft);
      take_memory_of_steps(engine);
      if (draft.engine) take_memory_of_draft_steps(*draft.engine);
    });
    stage("products", [&] { choose_products(engine, draft.engine.get(), observer); });
    used_elsewhere = bytes_used_elsewhere(engine.device->device->memory());  // no graph yet
    stage("graphs", [&] { capture(engine, observer); });
    if (draft.engine) stage("draft graphs", [&] { capture(*draft.engine, {}); });
  };
  prepare_steps();
  CacheGrowth growth = CacheGrowth::in_place;
  stage("cache size", [&] { growth = give_caches_the_rest(engine, draft.engine.get()); });
  if (growth == CacheGrowth::by_new_runners) {
    for (Start* start : {&main, &draft}) start->programs.reset();  // hold a number of slots
    prepare_steps();
  }
  report_memory(engine, draft.engine.get(), used_elsewhere);
  stage("scheduler", [&] {
    build_core(engine, draft.engine.get());
    if (draft.engine) finish_draft(std::move(draft.engine), engine);
  });
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
                  .warnings = options.warnings,
                  .attention_kernels = {}};
  if (args.device != "cpu") {
    plan.attention_kernels = attention_kernels_text(engine->args, options, std::nullopt);
  }
  if (const std::unique_ptr<LoadedEngine> draft = resolve_draft_engine(*engine)) {
    plan.draft = {.inputs = draft->options->graph_inputs, .resolved = draft->options->graphs};
  }
  return plan;
}

MemoryBill plan_memory(const EngineArgs& args) {
  const std::unique_ptr<LoadedEngine> engine = begin_engine(args);
  engine->options = resolve(engine->args);
  const std::unique_ptr<LoadedEngine> draft = resolve_draft_engine(*engine);
  engine->device = open_device(engine->args, *engine->options, engine->report);
  check_options_of_device(*engine);
  int64_t weights = planned_weight_bytes(*engine, *engine->device);
  if (draft) {
    draft->device = engine->device;
    check_options_of_device(*draft);
    weights += planned_weight_bytes(*draft, *engine->device);
  }
  const device::MemoryInfo memory = engine->device->device->memory();
  const CacheSizes caches = plan_caches(*engine, draft.get(), weights);
  return {.budget = engine->report.memory_budget,
          .others = static_cast<int64_t>(memory.total - memory.free),
          .weights = weights,
          .states = caches.state_bytes,
          .kv_cache = caches.block_bytes,
          .num_blocks = caches.main.num_blocks,
          .block_size = engine->args.block_size,
          .activations = std::nullopt,
          .graphs = std::nullopt,
          .buffers = std::nullopt,
          .cache_is_limit = caches.main.depends_on_memory};
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
  // A draft head decides which hidden states the main model outputs.
  (void)resolve_draft_engine(engine);
  engine.device = open_device(engine.args, *engine.options, engine.report);
  load_weights(engine, nullptr, {});
  reserve_caches(engine, nullptr);
  compile(start);
  use_stored_products(engine);
  if (args.tune == true) {
    engine.report.warnings.emplace_back(
        "--tune has no effect: nothing runs here; `reprise tune MODEL` measures products");
  }
  CompiledModel result{.extensions = engine.args.extensions,
                       .report = std::move(engine.report),
                       .stages = start.programs.take_stages()};
  // compile_only() does not use the cache, so the report must not say that the cache is disabled.
  result.report.compilation.cache_outcome.clear();
  result.report.compilation.cache_saved.clear();
  result.report.total_seconds = seconds_since(begin);
  return result;
}

void follow_rank_0(const EngineArgs& args) {
  const std::unique_ptr<LoadedEngine> engine = load_engine(args);
  runner::run_announced_steps(*args.ranks, *engine->runner);
}

}  // namespace reprise::api
