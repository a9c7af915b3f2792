#include "tests/integration/tiny_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "reprise/api/loading/compile_runner.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/runner/model_attention.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/open_weights.h"

namespace reprise::testing {
namespace {

weights::ModelConfig load_whole_config(const TinyEngineOptions& options) {
  if (options.model.empty())
    return weights::parse_model_config(options.config, "config.json").config;
  return weights::load_model_config(weights::ModelDirectory(options.model)).config;
}

weights::ModelConfig load_config(const TinyEngineOptions& options) {
  return weights::config_of_rank(load_whole_config(options), options.part);
}

std::unique_ptr<weights::WeightSource> open_weights(const TinyEngineOptions& options) {
  weights::OpenOptions open{.model = options.model, .dtype = options.dtype};
  if (options.model.empty()) open.dummy_seed = 7;
  if (options.part.num_ranks() > 1 || options.part.engines > 1) open.rank = options.part;
  weights::ModelConfig whole = load_whole_config(options);
  std::vector<std::string> warnings;
  return weights::open_weights(open, whole, warnings);
}

runner::Execution::MakeExecutor cpu_executor(kernels::Isa isa) {
  return [isa](device::Stream& stream, device::MemoryPool& pool) {
    return std::make_unique<kernels::CpuExecutor>(stream, pool, kernels::kernel_table(isa));
  };
}

config::ResolutionInputs resolution_inputs(const TinyEngineOptions& options,
                                           const std::vector<attention::LayerBackend>& layers) {
  config::ResolutionInputs inputs;
  inputs.lora = options.lora;
  inputs.compilation = options.compilation;
  inputs.enforce_eager = options.enforce_eager;
  inputs.compilation.cudagraph_mode = options.mode;
  inputs.compilation.mode = options.level;
  inputs.attention = runner::attention_groups(layers);
  inputs.max_num_seqs = options.max_num_reqs;
  inputs.max_num_batched_tokens = options.max_num_tokens;
  inputs.num_speculative_tokens = options.num_speculative_tokens;
  inputs.tensor_parallel_size = static_cast<int32_t>(options.part.tensor_ranks);
  return inputs;
}

kv_cache::KvCacheLayout cache_layout(const TinyEngineOptions& options,
                                     const weights::ModelConfig& config,
                                     const kv_cache::CacheDType& cache) {
  kv_cache::KvCacheLayout layout = runner::kv_cache_layout_of(
      config, options.num_blocks, TinyEngine::kBlockSize, options.dtype, cache);
  layout.num_addressed_blocks = options.num_addressed_blocks;
  return layout;
}

}  // namespace

TinyEngine::TinyEngine(const TinyEngineOptions& options)
    : config_(load_config(options)),
      own_device_(options.device == nullptr
                      ? device::create_cpu_device({.num_threads = options.num_threads})
                      : nullptr),
      device_(options.device == nullptr ? own_device_.get() : options.device),
      execution_(*device_,
                 options.make_executor ? options.make_executor
                                       : cpu_executor(options.isa.value_or(
                                             kernels::best_isa(device::detect_cpu_features())))),
      own_weights_(options.weights == nullptr ? open_weights(options) : nullptr),
      weights_(options.weights == nullptr ? own_weights_.get() : options.weights),
      parameters_(*weights_,
                  options.dtype,
                  *device_,
                  execution_.stream(),
                  execution_.executor(),
                  options.weight_families),
      adapters_(create_adapters(options)),
      model_(options.make_model
                 ? options.make_model(parameters_)
                 : models::create_model(
                       config_, config_.max_position_embeddings, parameters_, adapters_.get())) {
  model_->set_auxiliary(options.auxiliary);
  const attention::BackendInfo& backend =
      options.attention != nullptr
          ? *options.attention
          : attention::find_attention_backend("auto", 0, runner::attention_kind_of(config_));
  std::vector<attention::LayerBackend> layers = runner::layer_backends(config_, &backend);
  if (options.recurrent != nullptr) layers.back().backend = options.recurrent;
  const config::ResolutionInputs inputs = resolution_inputs(options, layers);
  resolved_ = config::resolve(inputs);
  const kv_cache::CacheDType& cache = kv_cache::find_cache_dtype(options.kv_cache_dtype);
  const int32_t slots_per_req =
      config_.num_recurrent_layers() > 0 ? 1 + options.num_speculative_tokens : 0;
  runner_ = std::make_unique<runner::ModelRunner>(
      execution_,
      *model_,
      parameters_,
      runner::ModelRunnerOptions{
          .limits = {.max_num_tokens = options.max_num_tokens,
                     .max_num_reqs = options.max_num_reqs,
                     .max_sampled_rows_per_req = 1 + options.num_speculative_tokens,
                     .max_num_prompt_logits = options.max_num_prompt_logits,
                     .max_blocks_per_req =
                         static_cast<int32_t>(config_.max_position_embeddings) / kBlockSize,
                     .block_size = kBlockSize,
                     .state_slots_per_req = slots_per_req},
          .kv_cache = cache_layout(options, config_, cache),
          .states = runner::state_cache_layout_of(
              config_,
              options.max_num_reqs * (1 + options.num_speculative_tokens) +
                  options.num_state_snapshots,
              1 + options.num_speculative_tokens),
          .dispatcher = config::dispatcher_options(inputs, resolved_),
          .attention = &backend,
          .recurrent = layers.size() > 1 ? layers.back().backend : nullptr,
          .attention_plan = options.attention_plan,
          .adapters = adapters_.get(),
          .ranks = options.ranks,
          .op_ranks = options.op_ranks,
          .data_parallel = options.data_parallel,
          .num_warmups = options.num_warmups,
          .copy_inputs = options.copy_inputs,
          .verify_graphs = options.verify_graphs,
          .shadow = options.shadow,
          .keep_inventory = options.keep_inventory,
          .strict_graphs = options.strict_graphs});
  if (resolved_.compilation_mode != config::CompilationMode::NONE) {
    compile(options, inputs.compilation, runner::ForwardKind::base);
    if (adapters_ != nullptr) {
      compile(options, inputs.compilation, runner::ForwardKind::adapters);
    }
  }
}

std::span<std::byte> TinyEngine::kv_bytes() {
  const device::BufferView memory = runner_->kv_cache().memory();
  return {static_cast<std::byte*>(memory.data), memory.bytes};
}

std::vector<std::byte> TinyEngine::save_kv() {
  std::vector<std::byte> bytes;
  for (const device::BufferView& memory :
       {runner_->kv_cache().memory(), runner_->states().memory()}) {
    if (memory.bytes == 0) continue;
    const size_t begin = bytes.size();
    bytes.resize(begin + memory.bytes);
    execution_.stream().copy_to_host(bytes.data() + begin, memory.data, memory.bytes);
  }
  return bytes;
}

void TinyEngine::restore_kv(std::span<const std::byte> saved) {
  for (const device::BufferView& memory :
       {runner_->kv_cache().memory(), runner_->states().memory()}) {
    const size_t count = std::min(memory.bytes, saved.size());
    if (count == 0) continue;
    execution_.stream().copy_from_host(memory.data, saved.data(), count);
    saved = saved.subspan(count);
  }
}

void TinyEngine::randomize_kv(uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1.0F, 1.0F);
  std::vector<std::byte> bytes(runner_->kv_cache().memory().bytes);
  const kv_cache::KvCacheLayout& layout = runner_->kv_cache().layout();
  if (dtype_bytes(layout.dtype) == 1) {
    const auto row_elements = static_cast<size_t>(layout.row_elements());
    for (size_t i = 0; i < bytes.size(); ++i) {  // no code of a float8 NaN
      bytes[i] = static_cast<std::byte>((random() & 0x80U) | random() % 0x70U);
      const float scale = 0.01F;
      if (layout.has_row_scales && i % row_elements == row_elements - 1) {
        std::memcpy(&bytes[i - 3], &scale, sizeof scale);
      }
    }
  } else if (runner_->kv_cache().layout().dtype == DType::f32) {
    auto* floats = reinterpret_cast<float*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) floats[i] = value(random);
  } else {
    auto* halves = reinterpret_cast<uint16_t*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / 2; ++i) {
      const float f = value(random);
      uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof bits);
      halves[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
  std::vector<float> states(runner_->states().memory().bytes / sizeof(float));
  for (float& state : states) state = value(random);
  const std::span<const std::byte> of_states = std::as_bytes(std::span(states));
  bytes.insert(bytes.end(), of_states.begin(), of_states.end());
  restore_kv(bytes);
}

std::vector<float> TinyEngine::logits(const runner::StepResult& result) {
  std::vector<float> all;
  for (int32_t row = 0; row < result.num_logits; ++row) {
    const std::span<const float> values = runner_->logits_row(result, row);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// The same steps as in the api layer.
void TinyEngine::compile(const TinyEngineOptions& options,
                         const config::CompilationConfig& asked,
                         runner::ForwardKind kind) {
  compile::ModelCompiler compiler(
      {.asked = asked,
       .resolved = resolved_,
       .isa = execution_.executor().kernels().isa,
       .generator = own_device_ != nullptr
                        ? compile::cpu_code_generator(execution_.executor().kernels().isa)
                        : options.generator,
       .norm_prologue_max_token_num = execution_.executor().norm_prologue_max_token_num(),
       .tensor_parallel_size = options.part.tensor_ranks,
       .tensor_rank = options.part.tensor_rank(),
       .cache_root = options.compile_cache,
       .disable_cache = options.compile_cache.empty()});
  api::compile_runner(compiler, *runner_, kind);
  compilation_ = compiler.report();
  const std::vector<std::string>& warnings = compiler.warnings();
  if (options.warnings != nullptr) {
    *options.warnings = warnings;
  } else {
    for (const std::string& warning : warnings) ADD_FAILURE() << warning;
  }
}

std::unique_ptr<lora::AdapterSlots> TinyEngine::create_adapters(const TinyEngineOptions& options) {
  if (options.lora.max_loras == 0) return nullptr;
  auto adapters =
      std::make_unique<lora::AdapterSlots>(options.lora.max_loras, options.max_lora_rank);
  adapters->set_token_slots(
      parameters_.add_buffer("lora_token_slots", {DType::i32, {options.max_num_tokens}}));
  return adapters;
}

}  // namespace reprise::testing
