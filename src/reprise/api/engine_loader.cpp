#include "reprise/api/engine_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "reprise/api/cache_events.h"
#include "reprise/api/cache_transfer.h"
#include "reprise/api/compile_runner.h"
#include "reprise/api/compiled_model.h"
#include "reprise/api/cpu_only.h"
#include "reprise/api/draft_head.h"
#include "reprise/api/draft_model.h"
#include "reprise/api/engine_device.h"
#include "reprise/api/engine_memory.h"
#include "reprise/api/extension_options.h"
#include "reprise/api/hub_cache.h"
#include "reprise/api/loaded_engine.h"
#include "reprise/api/memory_size.h"
#include "reprise/api/model_text.h"
#include "reprise/api/packed_weights.h"
#include "reprise/api/rank_options.h"
#include "reprise/api/resolved_options.h"
#include "reprise/api/weight_files.h"
#include "reprise/base/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kv_cache/events/kv_event_recorder.h"
#include "reprise/runner/memory_profile.h"
#include "reprise/runner/model_attention.h"
#include "reprise/weights/expected_tensors.h"
#include "reprise/weights/watched_weights.h"

namespace reprise::api {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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

/// Bytes of the device's memory that this process did not allocate through `device`.
size_t bytes_used_elsewhere(const device::MemoryInfo& memory) {
  const size_t used = memory.total - memory.free;
  return used - std::min(used, memory.allocated_here);
}

}  // namespace

EngineLoader::EngineLoader(const EngineArgs& args, const StartupObserver& observer)
    : observer_(observer), engine_(std::make_unique<LoadedEngine>()) {
  engine_->args = args;
  engine_->args.model = find_model_folder(args.model, hub_cache_folder());
  load_extension_files(engine_->args);
}

EngineLoader::~EngineLoader() = default;

template <typename Run>
void EngineLoader::run_stage(const char* name, const Run& run) {
  if (observer_.on_stage) observer_.on_stage(name);
  const Clock::time_point begin = Clock::now();
  run();
  engine_->report.stages.push_back({.name = name, .seconds = seconds_since(begin)});
}

std::unique_ptr<LoadedEngine> EngineLoader::load(const EngineArgs& args,
                                                 const StartupObserver& observer) {
  const Clock::time_point start = Clock::now();
  require_ranks(args);
  EngineLoader loader(args, observer);
  // Cheap checks come first: a mistyped option is reported before gigabytes of weights are loaded.
  loader.run_stage("options", [&] { loader.resolve(); });
  loader.run_stage("tokenizer", [&] { loader.load_text(); });
  loader.run_stage("weights", [&] { loader.load_model(); });
  if (loader.draft_) loader.run_stage("draft model", [&] { loader.load_draft(); });
  if (args.enable_lora) loader.run_stage("adapters", [&] { loader.load_adapters(); });
  loader.run_stage("KV cache", [&] { loader.build_runner(); });
  loader.run_stage("compile", [&] { loader.compile(); });
  loader.run_stage("scheduler", [&] { loader.build_core(); });
  loader.run_stage("graphs", [&] { loader.capture(); });
  if (loader.draft_) loader.run_stage("draft graphs", [&] { loader.finish_draft(); });
  loader.engine_->report.total_seconds = seconds_since(start);
  return std::move(loader.engine_);
}

CompiledModel EngineLoader::compile_only(const EngineArgs& args) {
  const Clock::time_point start = Clock::now();
  EngineArgs uncached = args;
  uncached.disable_compile_cache = true;
  uncached.packed_weights_cache = "none";
  const StartupObserver no_observer;
  EngineLoader loader(uncached, no_observer);
  loader.keeps_stages_ = true;
  loader.resolve();
  loader.draft_.reset();  // a draft model changes nothing about the programs of the main model
  loader.load_model();
  loader.build_runner();
  loader.compile();
  CompiledModel result{.report = std::move(loader.engine_->report), .stages = {}};
  if (loader.compiler_) result.stages = std::move(loader.compiler_->stages());
  // compile_only() does not use the cache, so the report must not say that the cache is disabled.
  result.report.compilation.cache_outcome.clear();
  result.report.compilation.cache_saved.clear();
  result.report.total_seconds = seconds_since(start);
  return result;
}

void EngineLoader::resolve() {
  engine_->options = std::make_unique<ResolvedOptions>(resolve_options(engine_->args));
  if (makes_room_for_whole_texts(engine_->args, *engine_->options)) {
    engine_->options = std::make_unique<ResolvedOptions>(resolve_options(engine_->args));
  }
  report_options();
  resolve_draft();
}

void EngineLoader::report_options() {
  const ResolvedOptions& options = *engine_->options;
  StartupReport& report = engine_->report;
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

void EngineLoader::load_text() {
  const Clock::time_point start = Clock::now();
  ResolvedOptions& options = *engine_->options;
  engine_->text = std::make_unique<ModelText>(engine_->args,
                                              options.generation,
                                              options.end_token_ids,
                                              static_cast<int32_t>(options.config.vocab_size));
  engine_->report.classifier = find_classifier(engine_->args, engine_->text->tokenizer(), options);
  engine_->report.tokenizer_seconds = seconds_since(start);
}

void EngineLoader::load_model() {
  const ResolvedOptions& options = *engine_->options;
  StartupReport& report = engine_->report;
  if (engine_->device == nullptr) {
    engine_->device =
        std::make_shared<EngineDevice>(open_engine_device(engine_->args, options.isa));
    append_warnings(report.warnings, engine_->device->warnings);
  }
  EngineDevice& device = *engine_->device;
  report.device = device.device->description();
  report.device += rank_text(engine_->args, options.rank_config);
  report.device_reason = device.fallback_reason;
  report.cpu_isa = device.is_gpu() ? "cuda" : kernels::isa_name(device.isa);

  if (device.is_gpu() && engine_->args.kv_cache_dtype == "auto") {
    engine_->options->kv_cache_dtype = kv_cache::find_cache_dtype("auto");
  }
  if (device.is_gpu()) refuse_what_needs_the_cpu(engine_->args, options);
  const Clock::time_point start = Clock::now();
  std::unique_ptr<weights::WeightSource> source =
      open_verified_weights(engine_->args, *engine_->options, report.warnings);
  report.num_parameters = weights::num_parameters(options.config);
  source = part_of_rank(engine_->args, options.config, std::move(source));
  // Only the CPU has kernels for packed weights.
  const auto packing =
      device.is_gpu() ? models::Parameters::Packing::dequantise : models::Parameters::Packing::keep;
  check_weights_fit(weight_bytes(*source, options.rank_config, options.dtype, packing),
                    *device.device);
  if (observer_.on_weights) {
    source = std::make_unique<weights::WatchedWeights>(std::move(source), observer_.on_weights);
  }
  engine_->parameters = std::make_unique<models::Parameters>(*source,
                                                             options.dtype,
                                                             *device.device,
                                                             device.execution->stream(),
                                                             device.execution->executor(),
                                                             packing);
  PackedWeights packed(engine_->args, options, device, report);
  packed.lend_to(*engine_->parameters);
  if (engine_->args.enable_lora) reserve_adapters();
  engine_->model = create_loaded_model(*source);
  engine_->parameters->finish_loading();
  if (const std::string& reason = engine_->parameters->unpacked_experts(); !reason.empty()) {
    report.warnings.push_back(
        fmt::format("experts are dequantised while loading, so they take as much memory as "
                    "unquantised weights: {}",
                    reason));
  }
  append_warnings(report.warnings,
                  warnings_of_invariance(engine_->args, device, *engine_->parameters));
  packed.keep(*engine_->parameters);
  report.weight_bytes = engine_->parameters->total_bytes();
  report.weights_seconds = seconds_since(start);
}

void EngineLoader::build_runner() {
  const ResolvedOptions& options = *engine_->options;
  StartupReport& report = engine_->report;
  CacheMemory memory = without_states(cache_memory(), state_cache_layout());
  reserve_snapshots(memory);
  if (draft_) memory = without_draft_cache(memory, kv_cache_layout(1), draft_->kv_cache_layout(1));
  KvCacheSize size =
      size_kv_cache(engine_->args, kv_cache_layout(1), options.max_model_len, memory);
  if (engine_->args.ranks != nullptr) size = agree_on_cache_size(*engine_->args.ranks, size);
  const kv_cache::KvCacheLayout layout = kv_cache_layout(size.num_blocks);
  report.kv_cache_dtype = options.kv_cache_dtype.name;
  report.max_model_len = size.max_model_len;
  report.num_kv_blocks = layout.num_blocks;
  report.kv_block_size = engine_->args.block_size;
  report.kv_cache_bytes = static_cast<size_t>(layout.num_blocks) * layout.bytes_per_block();
  report.num_state_slots = state_cache_layout().num_slots;
  report.state_cache_bytes =
      static_cast<size_t>(report.num_state_slots) * state_cache_layout().bytes_per_slot();
  engine_->runner =
      create_runner(layout, config::dispatcher_options(options.graph_inputs, options.graphs));
  if (draft_) build_draft_runner();
}

CacheMemory EngineLoader::cache_memory() {
  const EngineArgs& args = engine_->args;
  EngineDevice& device = *engine_->device;
  if (!device.is_gpu() || args.kv_cache_memory_bytes || args.num_gpu_blocks_override) {
    return cpu_cache_memory(args, device.device->memory());
  }
  // A runner cannot change its cache, so a runner with a tiny cache is made for the memory profile.
  // The real runner reuses the programs compiled for it.
  const size_t budget = gpu_memory_budget(args, device.device->memory());
  const ResolvedOptions& options = *engine_->options;
  const cudagraph::DispatcherOptions dispatcher =
      config::dispatcher_options(options.graph_inputs, options.graphs);
  cudagraph::CudagraphDispatcher planner;
  planner.initialize_cudagraph_keys(dispatcher);
  const std::unique_ptr<engine::ModelRunner> profiled =
      create_runner(kv_cache_layout(engine::kProfiledBlocks), engine::profiled_plan(dispatcher));
  compile(*profiled);
  engine_->report.memory_profile =
      engine::profile_memory(*profiled, *device.execution, planner.capture_plan());
  return gpu_cache_memory(args, budget, *engine_->report.memory_profile);
}

std::unique_ptr<engine::ModelRunner> EngineLoader::create_runner(
    const kv_cache::KvCacheLayout& layout, const cudagraph::DispatcherOptions& dispatcher) {
  const EngineArgs& args = engine_->args;
  const ResolvedOptions& options = *engine_->options;
  const bool is_gpu = engine_->device->is_gpu();
  if (args.replicas != nullptr && args.is_in_lockstep() && !engine_->data_parallel) {
    engine_->data_parallel = std::make_unique<engine::DataParallelSteps>(*args.replicas);
  }
  // vLLM warms up once per size because a GPU loads kernels lazily. Reprise's kernels are already
  // loaded, but those of a library may not be. On a CPU a warm-up has no such effect, so it runs
  // only on request.
  const bool warms_up = is_gpu || args.compilation_config.contains("cudagraph_num_of_warmups");
  return std::make_unique<engine::ModelRunner>(
      *engine_->device->execution,
      *engine_->model,
      *engine_->parameters,
      engine::ModelRunnerOptions{
          .limits = {.max_num_tokens = args.max_num_batched_tokens,
                     .max_num_reqs = args.max_num_seqs,
                     .max_sampled_rows_per_req =
                         options.draft_head ? 1 : 1 + options.num_speculative_tokens(),
                     .max_num_prompt_logits = engine::SchedulerConfig{}.max_prompt_logits,
                     .max_blocks_per_req =
                         (options.max_model_len + args.block_size - 1) / args.block_size,
                     .block_size = args.block_size,
                     .second_text_offset =
                         static_cast<int32_t>(options.config.second_text_offset()),
                     .has_encoder = options.config.encoder.has_value(),
                     .has_states = options.config.num_recurrent_layers() > 0},
          .kv_cache = layout,
          .states = state_cache_layout(),
          .dispatcher = dispatcher,
          .attention = options.attention,
          .recurrent = options.recurrent,
          // A GPU runs several hundred thread blocks at the same time.
          .attention_plan = {.wanted_items = is_gpu ? 512 : 128},
          .cascade_workers = args.disable_cascade_attn ? 0 : engine_->device->num_workers,
          .adapters = engine_->adapter_slots.get(),
          .expert_counts = engine_->expert_counts.get(),
          .ranks = args.ranks,
          .op_ranks = args.tensor_ranks != nullptr ? args.tensor_ranks : args.expert_engines,
          .data_parallel = engine_->data_parallel.get(),
          .num_warmups = warms_up ? options.graphs.num_of_warmups : 0,
          .copy_inputs = options.graph_inputs.compilation.cudagraph_copy_inputs,
          .lazy_capture = options.graph_inputs.compilation.cudagraph_lazy_capture});
}

void EngineLoader::compile(engine::ModelRunner& runner) {
  if (engine_->options->graphs.compilation_mode == config::CompilationMode::NONE) return;
  const Clock::time_point start = Clock::now();
  if (!compiler_) compiler_ = create_compiler("");
  compile_runner(*compiler_, runner, engine::ForwardKind::base);
  if (runner.has_adapters()) {
    const EngineArgs& args = engine_->args;
    if (!adapter_compiler_) {
      // The types of the memory that this forward reads.
      adapter_compiler_ = create_compiler(
          fmt::format("{},{},{}", args.max_loras, args.max_lora_rank, args.max_num_batched_tokens));
    }
    compile_runner(*adapter_compiler_, runner, engine::ForwardKind::adapters);
  }
  engine_->report.compile_seconds += seconds_since(start);
}

std::unique_ptr<compile::ModelCompiler> EngineLoader::create_compiler(std::string adapters) {
  const EngineArgs& args = engine_->args;
  const ResolvedOptions& options = *engine_->options;
  EngineDevice& device = *engine_->device;
  return std::make_unique<compile::ModelCompiler>(compile::ModelCompilerOptions{
      .asked = options.graph_inputs.compilation,
      .resolved = options.graphs,
      .model = options.rank_config,
      .isa = options.isa,
      .dtype = options.dtype,
      .packed_weights = engine_->parameters->packed_weights(),
      .kv_cache = kv_cache_text(),
      .adapters = std::move(adapters),
      .max_model_len = options.max_model_len,
      .block_size = args.block_size,
      .generator = choose_code_generator(args, device, options.graph_inputs.compilation),
      .extensions = args.extensions,
      .norm_prologue_max_token_num = device.execution->executor().norm_prologue_max_token_num(),
      .cache_root = compile_cache_root(args.compile_cache_root),
      .disable_cache = args.disable_compile_cache || is_compile_cache_disabled(),
      .keep_stages = keeps_stages_});
}

void EngineLoader::compile() {
  compile(*engine_->runner);
  if (draft_) draft_->compile();
  if (!compiler_) return;
  engine_->report.compilation = compiler_->report();
  append_warnings(engine_->report.warnings, compiler_->warnings());
  if (adapter_compiler_) append_warnings(engine_->report.warnings, adapter_compiler_->warnings());
}

void EngineLoader::build_core() {
  const EngineArgs& args = engine_->args;
  const ResolvedOptions& options = *engine_->options;
  EngineDevice& device = *engine_->device;
  if (device.is_gpu()) {
    engine_->row_sampler = device.accelerator->create_row_sampler(
        device.execution->stream(),
        args.max_num_seqs * (1 + options.num_speculative_tokens()),
        options.config.vocab_size);
  }
  build_drafter();
  // The vector of a prompt counts as a token behind it, which is never computed. Texts that are
  // computed whole are neither cut nor shared.
  const bool pools = options.config.pooling.has_value();
  const bool is_whole = options.config.computes_whole_texts();
  const bool is_caching =
      options.caches_prefixes && (options.config.num_recurrent_layers() == 0 || num_snapshots_ > 0);
  open_event_publisher(*engine_, is_caching);
  open_kv_transfer(*engine_);
  engine_->core = std::make_unique<engine::EngineCore>(
      *engine_->runner,
      engine::EngineCoreOptions{
          .scheduler = {.max_num_seqs = args.max_num_seqs,
                        .max_num_batched_tokens = args.max_num_batched_tokens,
                        .max_model_len = engine_->report.max_model_len + (pools ? 1 : 0),
                        .enable_chunked_prefill = args.enable_chunked_prefill && !is_whole,
                        .long_prefill_token_threshold = args.long_prefill_token_threshold,
                        .decode_query_len = options.graphs.uniform_decode_query_len,
                        .fewer_draft_widths = options.graphs.fewer_draft_widths(),
                        .pad_drafts = cudagraph::separate_routine(options.graphs.mode),
                        .recomputes_last_cached_block = has_draft_head(options),
                        .policy = args.scheduling_policy,
                        .is_pooling = pools,
                        .decoder_prompt = options.config.encoder
                                              ? options.config.encoder->decoder_prompt
                                              : std::vector<int32_t>(),
                        .async_scheduling = options.async_scheduling,
                        .max_loras = args.enable_lora ? args.max_loras : 0,
                        .least_common_prefix_reqs = engine_->runner->least_cascade_reqs(),
                        .prefix_cache_retention_interval = args.prefix_cache_retention_interval,
                        .eos_token_ids = options.end_token_ids,
                        .vocab_size = static_cast<int>(options.config.vocab_size),
                        .max_logprobs = options.max_logprobs},
          .seed = args.seed,
          .enable_prefix_caching = is_caching,
          .num_state_snapshots = static_cast<int>(num_snapshots_),
          .row_sampler = engine_->row_sampler.get(),
          .drafter = engine_->drafter.get(),
          .expert_counts = engine_->expert_counts.get(),
          .cache_listener = engine_->event_recorder.get()});
  add_memory();
}

void EngineLoader::add_memory() {
  engine_->memory = std::make_unique<EngineMemory>(
      *engine_->device->device,
      *engine_->parameters,
      std::vector{engine_->runner->kv_cache().memory(), engine_->runner->states().memory()});
}

void EngineLoader::capture() {
  EngineDevice& device = *engine_->device;
  engine::ModelRunner& runner = *engine_->runner;
  StartupReport& report = engine_->report;
  const size_t used_elsewhere = bytes_used_elsewhere(device.device->memory());
  report.capture = runner.capture(observer_.on_capture);
  compile::CompilationCounter& counter = report.compilation.counter;
  counter.num_full_cudagraph_captured = runner.full_wrapper().num_graphs();
  counter.num_cudagraph_captured =
      counter.num_full_cudagraph_captured + runner.num_piecewise_graphs();
  counter.num_gpu_runner_capture_triggers =
      report.resolved.mode == cudagraph::CudagraphMode::NONE ? 0 : 1;
  report.graph_bytes = runner.graph_bytes() + device.execution->graph_pool().reserved_bytes();
  if (device.is_gpu()) {
    report.memory =
        engine::measure_memory(*device.execution, runner, used_elsewhere, report.weight_bytes);
  }
}

}  // namespace reprise::api
