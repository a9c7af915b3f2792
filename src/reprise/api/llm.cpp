#include "reprise/api/llm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "reprise/api/chat_template_source.h"
#include "reprise/api/engine_memory.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/engine/bad_words.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/memory_profile.h"
#include "reprise/structured_output/token_bytes.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/weights/checkpoint.h"
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/expected_tensors.h"
#include "reprise/weights/generation_config.h"
#include "reprise/weights/model_config.h"
#include "reprise/weights/watched_weights.h"

namespace reprise::api {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

DType resolve_dtype(std::string_view text) {
  if (text == "auto") return DType::bf16;
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)) {
    throw InvalidArgument(fmt::format(
        "--dtype: '{}' is not supported; use auto, bfloat16, float32 or float16", text));
  }
  return *dtype;
}

kernels::Isa resolve_isa(std::string_view text) {
  const device::CpuFeatures features = device::detect_cpu_features();
  if (text == "auto") return kernels::best_isa(features);
  const std::optional<kernels::Isa> isa = kernels::parse_isa(text);
  if (isa && kernels::is_supported(*isa, features)) return *isa;
  std::string supported;
  for (kernels::Isa candidate : kernels::supported_isas(features)) {
    supported += fmt::format(" {}", kernels::isa_name(candidate));
  }
  throw InvalidArgument(fmt::format(
      "--cpu-isa: '{}' cannot run here; this machine supports auto{}", text, supported));
}

void require_positive(std::string_view flag, int64_t value) {
  if (value < 1) throw InvalidArgument(fmt::format("{}: {} is not a positive number", flag, value));
}

int32_t resolve_max_model_len(const EngineArgs& args, const weights::ModelConfig& config) {
  const int64_t derived = config.max_position_embeddings;
  if (!args.max_model_len) return static_cast<int32_t>(derived);
  require_positive("--max-model-len", *args.max_model_len);
  if (*args.max_model_len > derived) {
    throw InvalidArgument(
        fmt::format("--max-model-len: {} is more than the {} positions this model was made for "
                    "(max_position_embeddings in config.json)",
                    *args.max_model_len,
                    derived));
  }
  return *args.max_model_len;
}

int32_t resolve_max_logprobs(const EngineArgs& args, const weights::ModelConfig& config) {
  if (args.max_logprobs < -1) {
    throw InvalidArgument(fmt::format("--max-logprobs: {} is not a number of tokens, or -1 for all",
                                      args.max_logprobs));
  }
  const auto all = static_cast<int32_t>(config.vocab_size);
  return args.max_logprobs == -1 ? all : std::min(args.max_logprobs, all);
}

// vLLM's VLLM_CPU_KVCACHE_SPACE default.
constexpr int64_t kDefaultKvCacheBytes = int64_t{4} << 30;

size_t gpu_memory_budget(const EngineArgs& args, const device::MemoryInfo& memory) {
  if (!(args.gpu_memory_utilization > 0 && args.gpu_memory_utilization <= 1)) {
    throw InvalidArgument(fmt::format("--gpu-memory-utilization: {} is not between 0 and 1",
                                      args.gpu_memory_utilization));
  }
  return static_cast<size_t>(args.gpu_memory_utilization * static_cast<double>(memory.total));
}

size_t used_bytes(const device::MemoryInfo& memory) { return memory.total - memory.free; }

// Of the host's memory.
int64_t cpu_cache_bytes(const device::MemoryInfo& memory) {
  return std::min(kDefaultKvCacheBytes, static_cast<int64_t>(memory.free / 2));
}

int64_t overridden_num_kv_blocks(int64_t num_blocks) {
  constexpr int64_t kNullBlock = 1;
  require_positive("--num-gpu-blocks-override", num_blocks);
  return std::min(num_blocks, int64_t{INT32_MAX} - kNullBlock) + kNullBlock;
}

int64_t resolve_num_kv_blocks(const EngineArgs& args,
                              const kv_cache::KvCacheLayout& layout,
                              int32_t max_model_len,
                              int64_t bytes) {
  const auto bytes_per_block = static_cast<int64_t>(layout.bytes_per_block());
  const int64_t blocks_per_request = (max_model_len + layout.block_size - 1) / layout.block_size;
  const int64_t useful = blocks_per_request * args.max_num_seqs + 1;  // and the null block
  const int64_t blocks = std::min(useful, bytes / bytes_per_block);
  if (blocks < 2) {
    throw InvalidArgument(fmt::format(
        "--kv-cache-memory-bytes: {} bytes hold {} blocks of {} bytes; at least 2 are needed",
        bytes,
        blocks,
        bytes_per_block));
  }
  return blocks;
}

weights::GenerationConfig load_generation(const EngineArgs& args,
                                          const weights::ModelDirectory& model) {
  const Json& overrides = args.override_generation_config;
  if (args.generation_config == "auto") return weights::load_generation_config(model, overrides);
  if (args.generation_config != "vllm") {
    const weights::ModelDirectory folder(args.generation_config);
    return weights::load_generation_config(folder, overrides);
  }
  weights::GenerationConfig config =
      weights::parse_generation_config(overrides.dump(), "--override-generation-config");
  // As vLLM: what ends a text is no recommendation.
  if (config.eos_token_ids.empty()) {
    config.eos_token_ids = weights::load_generation_config(model).eos_token_ids;
  }
  return config;
}

std::unique_ptr<weights::WeightSource> open_weights(const EngineArgs& args,
                                                    const weights::ModelDirectory& directory,
                                                    const weights::ModelConfig& config,
                                                    std::vector<std::string>& warnings) {
  if (args.load_format == LoadFormat::dummy) {
    return std::make_unique<weights::DummyWeights>(config, args.seed);
  }
  auto checkpoint = std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(directory));
  warnings.insert(warnings.end(), checkpoint->warnings().begin(), checkpoint->warnings().end());
  return checkpoint;
}

}  // namespace

struct LLM::Impl {
  explicit Impl(const EngineArgs& engine_args) : args(engine_args) {}

  /// Until requests can come.
  void start(const StartupObserver& observer);
  /// Until a program could run: no tokenizer, no captures.
  void start_without_requests(CompilationStages& wanted);
  void resolve_graphs();
  void load_tokenizer(const weights::ModelDirectory& directory);
  void create_device();
  void load_model(const weights::ModelDirectory& directory, const StartupObserver& observer);
  void build_runner();
  [[nodiscard]] kv_cache::KvCacheLayout kv_cache_layout(int64_t num_blocks) const;
  [[nodiscard]] std::unique_ptr<engine::ModelRunner> create_runner(
      const kv_cache::KvCacheLayout& layout, const cudagraph::DispatcherOptions& dispatcher);
  [[nodiscard]] int64_t cache_bytes();
  [[nodiscard]] int64_t gpu_cache_bytes();
  void compile(engine::ModelRunner& for_runner);
  void build_core();
  [[nodiscard]] std::vector<int32_t> end_token_ids() const;
  void capture(const StartupObserver& observer);
  void sleep(SleepLevel level);
  void reload_weights();

  EngineArgs args;
  StartupReport report;
  CompilationStages* stages = nullptr;          // for whom they are of interest
  std::optional<CompiledFiles> compiled_files;  // until the engine's own runner has them
  config::ResolutionInputs resolution_inputs;
  weights::ModelConfig config;
  weights::GenerationConfig generation;
  kernels::Isa isa = kernels::Isa::scalar;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // shared with the grammar compiler
  std::once_flag grammar_compiler_made;
  std::unique_ptr<structured_output::GrammarCompiler> grammar_compiler;
  std::optional<SourcedChatTemplate> chat_template;
  // In order of dependence: each borrows from those above it.
  std::unique_ptr<kernels::Accelerator> accelerator;  // nullptr: the device is the CPU
  std::unique_ptr<device::Device> device;
  kernels::CodeTarget code_target;  // of an accelerator
  std::unique_ptr<engine::Execution> execution;
  size_t bytes_of_others =
      0;  // of the device's memory before there are graphs: context, code, others
  std::unique_ptr<weights::WeightSource> weight_source;
  std::unique_ptr<models::Parameters> parameters;
  std::unique_ptr<models::CausalLM> model;
  std::unique_ptr<engine::ModelRunner> runner;
  std::unique_ptr<kernels::RowSampler> row_sampler;  // nullptr: the host samples
  std::unique_ptr<engine::EngineCore> core;
  std::unique_ptr<engine::OutputProcessor> outputs;
  std::unique_ptr<EngineMemory> sleeper;
};

void LLM::Impl::start(const StartupObserver& observer) {
  const Clock::time_point start = Clock::now();
  const auto stage = [&](const char* name, const auto& run) {
    if (observer.on_stage) observer.on_stage(name);
    const Clock::time_point begin = Clock::now();
    run();
    report.stages.push_back({.name = name, .seconds = seconds_since(begin)});
  };
  std::optional<weights::ModelDirectory> directory;
  // Cheap checks first: a mistyped mode must not wait for gigabytes of weights.
  stage("options", [&] {
    resolve_graphs();
    directory.emplace(args.model);
  });
  stage("tokenizer", [&] { load_tokenizer(*directory); });
  stage("weights", [&] { load_model(*directory, observer); });
  stage("KV cache", [&] { build_runner(); });
  stage("compile", [&] {
    compile(*runner);
    compiled_files.reset();
  });
  stage("scheduler", [&] { build_core(); });
  stage("graphs", [&] { capture(observer); });
  report.graph_bytes = runner->graph_bytes() + execution->graph_pool().reserved_bytes();
  if (accelerator != nullptr) {
    report.memory =
        engine::measure_memory(*execution, *runner, bytes_of_others, report.weight_bytes);
  }
  report.total_seconds = seconds_since(start);
}

void LLM::Impl::start_without_requests(CompilationStages& wanted) {
  const Clock::time_point start = Clock::now();
  stages = &wanted;
  resolve_graphs();
  load_model(weights::ModelDirectory(args.model), {});
  build_runner();
  compile(*runner);
  report.total_seconds = seconds_since(start);
}

void LLM::Impl::resolve_graphs() {
  require_positive("--max-num-seqs", args.max_num_seqs);
  require_positive("--max-num-batched-tokens", args.max_num_batched_tokens);
  require_positive("--block-size", args.block_size);
  report.attention =
      &attention::find_attention_backend(args.attention_backend, args.flash_attn_version);
  config::ParsedCompilationConfig parsed =
      config::parse_compilation_config(args.compilation_config);
  report.warnings = std::move(parsed.warnings);
  resolution_inputs.compilation = std::move(parsed.config);
  resolution_inputs.optimization_level = args.optimization_level;
  resolution_inputs.enforce_eager = args.enforce_eager;
  resolution_inputs.attention = {{std::string(report.attention->name), report.attention->support}};
  resolution_inputs.max_num_seqs = args.max_num_seqs;
  resolution_inputs.max_num_batched_tokens = args.max_num_batched_tokens;
  report.resolved = config::resolve(resolution_inputs);
  report.warnings.insert(
      report.warnings.end(), report.resolved.warnings.begin(), report.resolved.warnings.end());
}

void LLM::Impl::load_tokenizer(const weights::ModelDirectory& directory) {
  const Clock::time_point start = Clock::now();
  if (!args.tokenizer && !directory.contains("tokenizer.json")) {
    throw FileError("E_TOKENIZER",
                    directory.path_of("tokenizer.json"),
                    "",
                    "no such file; --tokenizer DIR uses the tokenizer of another folder");
  }
  const std::filesystem::path folder = args.tokenizer.value_or(directory.path());
  tokenizer = std::make_shared<const tokenizer::Tokenizer>(tokenizer::Tokenizer::load(folder));
  chat_template = load_chat_template(args.chat_template, tokenizer->config(), folder);
  report.tokenizer_seconds = seconds_since(start);
}

void LLM::Impl::create_device() {
  if (args.device != "auto" && args.device != "cpu" && args.device != "cuda") {
    throw InvalidArgument(
        fmt::format("--device: '{}' is not one of auto, cpu and cuda", args.device));
  }
  if (args.device != "cpu") {
    kernels::LoadedAccelerator loaded =
        kernels::load_cuda_plugin(kernels::default_cuda_plugin_paths());
    accelerator = std::move(loaded.accelerator);
    if (accelerator == nullptr && args.device == "cuda") {
      throw InvalidArgument(fmt::format("--device cuda: {}", loaded.reason));
    }
    if (accelerator == nullptr && loaded.has_plugin) {
      report.device_reason = fmt::format("no CUDA: {}", loaded.reason);
    }
  }
  if (accelerator == nullptr) {
    device = device::create_cpu_device({.num_threads = args.num_threads});
    execution = std::make_unique<engine::Execution>(*device, kernels::kernel_table(isa));
    return;
  }
  const std::span<const std::string> remarks = accelerator->remarks();
  report.warnings.insert(report.warnings.end(), remarks.begin(), remarks.end());
  device = accelerator->create_device({});
  code_target = accelerator->create_code_target(*device);
  execution = std::make_unique<engine::Execution>(
      *device, [this](device::Stream& stream, device::MemoryPool& pool) {
        return accelerator->create_executor(stream, pool);
      });
}

void LLM::Impl::load_model(const weights::ModelDirectory& directory,
                           const StartupObserver& observer) {
  weights::LoadedModelConfig loaded = weights::load_model_config(directory, args.hf_overrides);
  config = std::move(loaded.config);
  report.warnings.insert(report.warnings.end(), loaded.warnings.begin(), loaded.warnings.end());
  generation = load_generation(args, directory);
  const DType dtype = resolve_dtype(args.dtype);
  isa = resolve_isa(args.cpu_isa);

  create_device();

  const Clock::time_point start = Clock::now();
  report.max_model_len = resolve_max_model_len(args, config);
  report.max_logprobs = resolve_max_logprobs(args, config);
  weight_source = open_weights(args, directory, config, report.warnings);
  if (observer.on_weights) {
    weight_source =
        std::make_unique<weights::WatchedWeights>(std::move(weight_source), observer.on_weights);
  }
  for (std::string& warning : weights::verify_weights(config, *weight_source)) {
    report.warnings.push_back(std::move(warning));
  }
  parameters = std::make_unique<models::Parameters>(
      *weight_source, dtype, *device, execution->stream(), execution->executor());
  model = models::create_model(config, report.max_model_len, *parameters);
  parameters->finish_loading();
  weight_source.reset();
  report.weights_seconds = seconds_since(start);
  report.device = device->description();
  report.cpu_isa = accelerator != nullptr ? "cuda" : kernels::isa_name(isa);
  report.dtype = dtype_name(dtype);
  report.num_parameters = weights::num_parameters(config);
  report.weight_bytes = parameters->total_bytes();
}

kv_cache::KvCacheLayout LLM::Impl::kv_cache_layout(int64_t num_blocks) const {
  return {.num_layers = config.num_hidden_layers,
          .num_blocks = num_blocks,
          .num_kv_heads = config.num_key_value_heads,
          .block_size = args.block_size,
          .head_dim = config.head_dim,
          .dtype = parameters->dtype()};
}

void LLM::Impl::build_runner() {
  const int64_t num_blocks =
      args.num_gpu_blocks_override
          ? overridden_num_kv_blocks(*args.num_gpu_blocks_override)
          : resolve_num_kv_blocks(args, kv_cache_layout(1), report.max_model_len, cache_bytes());
  const kv_cache::KvCacheLayout layout = kv_cache_layout(num_blocks);
  report.num_kv_blocks = layout.num_blocks;
  report.kv_block_size = args.block_size;
  report.kv_cache_bytes = static_cast<size_t>(layout.num_blocks) * layout.bytes_per_block();
  runner = create_runner(layout, config::dispatcher_options(resolution_inputs, report.resolved));
}

int64_t LLM::Impl::cache_bytes() {
  if (args.kv_cache_memory_bytes) return *args.kv_cache_memory_bytes;
  return accelerator != nullptr ? gpu_cache_bytes() : cpu_cache_bytes(device->memory());
}

// A runner of its own is profiled, since one cannot change its cache; its programs are the real
// one's too.
int64_t LLM::Impl::gpu_cache_bytes() {
  const size_t budget = gpu_memory_budget(args, device->memory());
  const cudagraph::DispatcherOptions dispatcher =
      config::dispatcher_options(resolution_inputs, report.resolved);
  cudagraph::CudagraphDispatcher planner;
  planner.initialize_cudagraph_keys(dispatcher);
  const std::unique_ptr<engine::ModelRunner> profiled =
      create_runner(kv_cache_layout(engine::kProfiledBlocks), engine::profiled_plan(dispatcher));
  compile(*profiled);
  const engine::MemoryProfile profile =
      engine::profile_memory(*profiled, *execution, planner.capture_plan());
  report.memory_profile = profile;
  const size_t bytes = profile.cache_bytes(budget);
  if (bytes == 0) {
    throw InvalidArgument(fmt::format(
        "--gpu-memory-utilization: {} of {} bytes are less than the {} that weights and "
        "activations and the {} that graphs take; give more, or a smaller model",
        args.gpu_memory_utilization,
        device->memory().total,
        profile.used_bytes - std::min(profile.used_bytes, profile.probed_graph_bytes),
        profile.estimated_graph_bytes));
  }
  return static_cast<int64_t>(bytes);
}

std::unique_ptr<engine::ModelRunner> LLM::Impl::create_runner(
    const kv_cache::KvCacheLayout& layout, const cudagraph::DispatcherOptions& dispatcher) {
  // vLLM warms up once per size because a GPU loads kernels lazily (ours are loaded already, but
  // those of a library may not be). A CPU has nothing to load, so a
  // warm-up would only compute; it is done when asked for.
  const bool warmups_asked = args.compilation_config.contains("cudagraph_num_of_warmups");
  return std::make_unique<engine::ModelRunner>(
      *execution,
      *model,
      *parameters,
      engine::ModelRunnerOptions{
          .limits = {.max_num_tokens = args.max_num_batched_tokens,
                     .max_num_reqs = args.max_num_seqs,
                     .max_num_prompt_logits = engine::SchedulerConfig{}.max_prompt_logits,
                     .max_blocks_per_req =
                         (report.max_model_len + args.block_size - 1) / args.block_size,
                     .block_size = args.block_size},
          .kv_cache = layout,
          .dispatcher = dispatcher,
          .attention = report.attention,
          // A GPU has several hundred places for blocks.
          .split_plan = {.wanted_items = accelerator != nullptr ? 512 : 128},
          .num_warmups =
              warmups_asked || accelerator != nullptr ? report.resolved.num_of_warmups : 0,
          .copy_inputs = resolution_inputs.compilation.cudagraph_copy_inputs});
}

std::vector<int32_t> LLM::Impl::end_token_ids() const {
  const std::vector<int64_t>& eos =
      generation.eos_token_ids.empty() ? config.eos_token_ids : generation.eos_token_ids;
  return {eos.begin(), eos.end()};
}

void LLM::Impl::build_core() {
  engine::EngineCoreOptions options{
      .scheduler = {.max_num_seqs = args.max_num_seqs,
                    .max_num_batched_tokens = args.max_num_batched_tokens,
                    .max_model_len = report.max_model_len,
                    .enable_chunked_prefill = args.enable_chunked_prefill,
                    .long_prefill_token_threshold = args.long_prefill_token_threshold,
                    .policy = args.scheduling_policy,
                    .async_scheduling = args.async_scheduling,
                    .vocab_size = static_cast<int>(config.vocab_size),
                    .max_logprobs = report.max_logprobs},
      .seed = args.seed,
      .enable_prefix_caching = args.enable_prefix_caching};
  options.scheduler.eos_token_ids = end_token_ids();
  if (accelerator != nullptr) {
    row_sampler =
        accelerator->create_row_sampler(execution->stream(), args.max_num_seqs, config.vocab_size);
    options.row_sampler = row_sampler.get();
  }
  core = std::make_unique<engine::EngineCore>(*runner, options);
  outputs = std::make_unique<engine::OutputProcessor>(*tokenizer, *core);
  sleeper = std::make_unique<EngineMemory>(*device, *parameters, runner->kv_cache().memory());
}

void LLM::Impl::compile(engine::ModelRunner& for_runner) {
  if (report.resolved.compilation_mode == config::CompilationMode::NONE) return;
  const Clock::time_point start = Clock::now();
  const CompileInputs inputs{
      .args = args,
      .resolved = report.resolved,
      .compilation = resolution_inputs.compilation,
      .config = config,
      .isa = isa,
      .dtype = parameters->dtype(),
      .max_model_len = report.max_model_len,
      .generator = accelerator == nullptr
                       ? cpu_code_generator(isa)
                       : cuda_code_generator(code_target.architecture, *code_target.loader),
      .norm_prologue_max_token_num = execution->executor().norm_prologue_max_token_num(),
      .stages = stages};
  if (compiled_files) {
    use_compiled(inputs, *compiled_files, for_runner);
  } else {
    compiled_files = compile_model(inputs, for_runner, report.compilation, report.warnings);
  }
  report.compile_seconds += seconds_since(start);
}

void LLM::Impl::capture(const StartupObserver& observer) {
  const device::MemoryInfo memory = device->memory();
  bytes_of_others = used_bytes(memory) - std::min(used_bytes(memory), memory.allocated_here);
  report.capture = runner->capture(observer.on_capture);
  compile::CompilationCounter& counter = report.compilation.counter;
  counter.num_full_cudagraph_captured = runner->full_wrapper().num_graphs();
  counter.num_cudagraph_captured =
      counter.num_full_cudagraph_captured + runner->forward().num_piecewise_graphs();
  counter.num_gpu_runner_capture_triggers =
      report.resolved.mode == cudagraph::CudagraphMode::NONE ? 0 : 1;
}

void LLM::Impl::sleep(SleepLevel level) {
  if (core->has_unfinished_requests()) {
    throw InvalidArgument(
        "an engine with unfinished requests cannot sleep; finish or abort them first");
  }
  runner->wait();  // for whatever of the last step nobody waited for
  sleeper->sleep(level);
  // Nobody holds a block. With the blocks go the prefixes.
  if (!core->reset_prefix_cache()) throw Error("blocks of the KV cache are held by no request");
}

void LLM::Impl::reload_weights() {
  const weights::ModelDirectory directory(args.model);
  std::vector<std::string> known_warnings;
  const auto source = open_weights(args, directory, config, known_warnings);
  (void)weights::verify_weights(config, *source);
  parameters->reload(*source);
}

LLM::LLM(const EngineArgs& args, const StartupObserver& observer)
    : impl_(std::make_unique<Impl>(args)) {
  impl_->start(observer);
}
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;
LLM::~LLM() = default;

std::vector<RequestOutput> LLM::generate(std::span<const std::string> prompts,
                                         const sampling::SamplingParams& params,
                                         const std::function<void(const StreamDelta&)>& on_delta) {
  std::vector<std::vector<int32_t>> token_ids;
  for (const std::string& prompt : prompts) token_ids.push_back(impl_->tokenizer->encode(prompt));
  std::vector<RequestOutput> results = generate_token_ids(token_ids, params, on_delta);
  for (size_t i = 0; i < prompts.size(); ++i) results[i].prompt = prompts[i];
  return results;
}

std::vector<RequestOutput> LLM::generate_token_ids(
    std::span<const std::vector<int32_t>> prompts,
    const sampling::SamplingParams& wanted,
    const std::function<void(const StreamDelta&)>& on_delta) {
  if (impl_->sleeper->sleeping().any()) throw InvalidArgument("the engine sleeps; wake_up() first");
  const Clock::time_point start = Clock::now();
  sampling::SamplingParams params = wanted;
  engine::tokenize_bad_words(params, *impl_->tokenizer);
  engine::EngineCore& core = *impl_->core;
  std::vector<RequestOutput> results(prompts.size());
  std::vector<engine::RequestId> ids;
  try {
    for (const std::vector<int32_t>& prompt : prompts) {
      results[ids.size()].prompt_token_ids = prompt;
      ids.push_back(core.add_request(prompt, params));
      impl_->outputs->add_request(ids.back(), params);
    }
  } catch (...) {
    // One bad prompt refuses the call; the others must not stay behind in the queue.
    for (engine::RequestId id : ids) {
      core.abort_request(id);
      (void)impl_->outputs->take(id);
    }
    throw;
  }
  const auto index_of = [first = ids.empty() ? 0 : static_cast<uint64_t>(ids.front())](
                            engine::RequestId id) { return static_cast<uint64_t>(id) - first; };
  while (core.has_unfinished_requests()) {
    for (const engine::EngineCore::Update& update : core.step()) {
      const size_t index = index_of(update.request->id());
      results[index].num_cached_tokens = update.request->num_cached_tokens();
      RequestMetrics& metrics = results[index].metrics;
      const engine::OutputDelta delta = impl_->outputs->process(update);
      if (update.new_token_id) {
        metrics.latency = seconds_since(start);
        if (metrics.num_output_tokens++ == 0) {
          metrics.time_to_first_token = metrics.latency;
          const auto logprobs = update.request->prompt_logprobs();
          results[index].prompt_logprobs.assign(logprobs.begin(), logprobs.end());
        }
      }
      if (on_delta && (!delta.text.empty() || delta.finished)) {
        on_delta({.prompt_index = index, .text = delta.text, .finished = delta.finished});
      }
    }
  }
  for (size_t i = 0; i < ids.size(); ++i) results[i].output = impl_->outputs->take(ids[i]);
  return results;
}

void LLM::sleep(SleepLevel level) { impl_->sleep(level); }
void LLM::wake_up(EngineParts parts) {
  impl_->sleeper->wake_up(parts, [this] { impl_->reload_weights(); });
}
EngineParts LLM::sleeping() const noexcept { return impl_->sleeper->sleeping(); }

std::string LLM::apply_chat_template(const Json& messages) const {
  return render_chat(messages, {}).text;
}

ChatPrompt LLM::render_chat(const Json& messages, const ChatTemplateOptions& options) const {
  if (options.chat_template) {
    const auto given = chat_template::ChatTemplate::parse(*options.chat_template);
    return api::render_chat(given, *impl_->tokenizer, messages, options);
  }
  if (!impl_->chat_template) {
    throw InvalidArgument(fmt::format(
        "{}: this model brings no chat template; use a plain prompt, or --chat-template",
        impl_->args.model.string()));
  }
  return api::render_chat(impl_->chat_template->parsed, *impl_->tokenizer, messages, options);
}

sampling::SamplingParams LLM::default_sampling_params() const {
  const weights::GenerationConfig& recommended = impl_->generation;
  sampling::SamplingParams params;
  if (recommended.do_sample == false) params.temperature = 0;
  if (recommended.temperature) params.temperature = static_cast<float>(*recommended.temperature);
  if (recommended.top_k) params.top_k = static_cast<int>(*recommended.top_k);
  if (recommended.top_p) params.top_p = static_cast<float>(*recommended.top_p);
  if (recommended.min_p) params.min_p = static_cast<float>(*recommended.min_p);
  if (recommended.repetition_penalty) {
    params.repetition_penalty = static_cast<float>(*recommended.repetition_penalty);
  }
  if (recommended.max_new_tokens) params.max_tokens = static_cast<int>(*recommended.max_new_tokens);
  return params;
}

std::string_view LLM::chat_template() const noexcept {
  return impl_->chat_template ? std::string_view(impl_->chat_template->source) : std::string_view();
}

const StartupReport& LLM::startup_report() const noexcept { return impl_->report; }
structured_output::GrammarCompiler& LLM::grammar_compiler() const {
  Impl& impl = *impl_;
  std::call_once(impl.grammar_compiler_made, [&impl] {
    const std::vector<int32_t> end_token_ids = impl.end_token_ids();
    // By value: a compilation that never ends outlives the engine.
    auto make = [tokenizer = impl.tokenizer, vocab_size = impl.config.vocab_size, end_token_ids] {
      return structured_output::create_grammar_backend(structured_output::vocabulary_bytes(
          *tokenizer, static_cast<int32_t>(vocab_size), end_token_ids));
    };
    impl.grammar_compiler = std::make_unique<structured_output::GrammarCompiler>(std::move(make));
  });
  return *impl.grammar_compiler;
}
const tokenizer::Tokenizer& LLM::tokenizer() const noexcept { return *impl_->tokenizer; }
const cudagraph::DispatchLedger& LLM::ledger() const noexcept { return impl_->core->ledger(); }
engine::EngineCore& LLM::core() noexcept { return *impl_->core; }
engine::ModelRunner& LLM::runner() noexcept { return *impl_->runner; }

CompiledModel compile_only(const EngineArgs& args) {
  EngineArgs anew = args;
  anew.disable_compile_cache = true;
  LLM::Impl engine(anew);
  CompiledModel result;
  engine.start_without_requests(result.stages);
  result.report = std::move(engine.report);
  result.report.compilation.cache_outcome.clear();  // not asked, as opposed to switched off
  result.report.compilation.cache_saved.clear();
  return result;
}

}  // namespace reprise::api
