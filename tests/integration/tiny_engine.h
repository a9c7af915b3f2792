#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reprise/api/loading/compile_runner.h"
#include "reprise/config/resolution.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/lora/adapter_slots.h"
#include "reprise/parallel/communicator.h"
#include "reprise/runner/model_attention.h"
#include "reprise/runner/model_runner.h"
#include "reprise/weights/codecs/expert_matrices.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/checkpoint.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "reprise/weights/sources/rank_weights.h"
#include "reprise/weights/sources/renamed_weights.h"
#include "reprise/weights/sources/stacked_experts.h"

/// A whole model runner over a two-layer model; only the weights are random.
namespace reprise::testing {

inline constexpr const char* kTinyQwen3Config = R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 97, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

/// Latent attention and experts in groups.
inline constexpr const char* kTinyDeepseekConfig = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 16, "q_lora_rank": 24,
  "kv_lora_rank": 32, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
  "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3,
  "n_shared_experts": 1, "moe_intermediate_size": 32, "routed_scaling_factor": 1.5,
  "first_k_dense_replace": 1, "vocab_size": 97, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "hidden_act": "silu"})";

/// Recurrent layers only: Mamba-1, then Mamba-2.
inline constexpr const char* kTinyMambaConfig = R"({
  "architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 64, "expand": 2,
  "num_hidden_layers": 2, "state_size": 6, "conv_kernel": 4, "time_step_rank": 5,
  "vocab_size": 97, "max_position_embeddings": 256})";
inline constexpr const char* kTinyMamba2Config = R"({
  "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": 64, "expand": 2,
  "num_hidden_layers": 2, "num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2,
  "conv_kernel": 4, "vocab_size": 97, "max_position_embeddings": 256})";

/// Recurrent layers around one with attention: Mamba-2, a gated delta net with experts, and short
/// convolutions.
inline constexpr const char* kTinyBambaConfig = R"({
  "architectures": ["BambaForCausalLM"], "model_type": "bamba", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 2, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 16,
  "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_d_conv": 4, "mamba_expand": 2,
  "vocab_size": 97, "max_position_embeddings": 256})";
/// Attention and Mamba-2 side by side in every layer.
inline constexpr const char* kTinyFalconH1Config = R"({
  "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_head": 16,
  "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_d_conv": 4, "mlp_multipliers": [0.8, 1.2],
  "ssm_multipliers": [0.7, 1.4, 0.6, 1.5, 0.5], "ssm_in_multiplier": 1.25,
  "attention_in_multiplier": 1.3, "key_multiplier": 0.7, "lm_head_multiplier": 0.4,
  "vocab_size": 97, "max_position_embeddings": 256})";
inline constexpr const char* kTinyQwen3NextConfig = R"({
  "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "full_attention_interval": 2,
  "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
  "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_experts": 4,
  "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
  "vocab_size": 97, "max_position_embeddings": 256})";

inline constexpr const char* kTinyLfm2Config = R"({
  "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "hidden_size": 64,
  "intermediate_size": 96, "block_multiple_of": 8, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "full_attn_idxs": [1], "conv_L_cache": 3,
  "vocab_size": 97, "max_position_embeddings": 256})";

struct TinyEngineOptions {
  cudagraph::CudagraphMode mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE;
  config::CompilationMode level = config::CompilationMode::NONE;
  /// Everything else of the compilation config; mode and cudagraph_mode are above.
  config::CompilationConfig compilation = {};
  bool enforce_eager = false;
  int32_t max_num_tokens = 64;
  int32_t max_num_reqs = 16;
  int32_t max_num_prompt_logits = 16;
  int64_t num_blocks = 96;
  int64_t num_addressed_blocks = 0;  // 0: num_blocks
  int32_t num_speculative_tokens = 0;
  int num_threads = 2;
  DType dtype = DType::bf16;
  std::string kv_cache_dtype = "auto";
  const attention::BackendInfo* attention = nullptr;  // default: the backend that "auto" chooses
  /// Of the recurrent layers of a model that also has attention. Default: as above.
  const attention::BackendInfo* recurrent = nullptr;
  /// Chosen so that the contexts in the tests are split into parts.
  attention::AttentionPlanOptions attention_plan = {
      .wanted_items = 16, .least_positions = 32, .tokens_per_item = 8};
  bool copy_inputs = false;
  int num_warmups = 0;  // eager runs before each capture
  cudagraph::VerifyGraphs verify_graphs = cudagraph::VerifyGraphs::capture;
  cudagraph::LoraOptions lora = {};
  int32_t max_lora_rank = 8;
  std::string config = kTinyQwen3Config;
  /// A folder with config.json and weights, used instead of `config` and random weights.
  std::filesystem::path model;
  /// State slots besides one for each request.
  int32_t num_state_snapshots = 0;
  /// Makes the model, if it is not that of `config`: a draft head.
  std::function<std::unique_ptr<models::CausalLM>(models::Parameters&)> make_model;
  models::AuxiliaryStates auxiliary = {};  // what a draft head reads of the model
  /// Weights for `config`, instead of random ones. Borrowed.
  const weights::WeightSource* weights = nullptr;
  WeightFamilies weight_families = {};
  std::optional<kernels::Isa> isa;   // default: the best one
  device::Device* device = nullptr;  // borrowed; default: a CPU device of its own
  /// The ranks of which this engine is one. Borrowed; default: this is the only one.
  parallel::Communicator* ranks = nullptr;
  /// How several ranks divide the model, and which of them this is.
  weights::RankOfModel part;
  /// The second group of ranks, see ModelRunnerOptions.
  parallel::Communicator* op_ranks = nullptr;
  /// The engines that run their steps together with this one. Borrowed; default: none.
  runner::DataParallelSteps* data_parallel = nullptr;
  runner::Execution::MakeExecutor make_executor;    // default: an executor of the CPU's kernels
  std::optional<compile::CodeGenerator> generator;  // for a borrowed device; the CPU has its own
  std::filesystem::path compile_cache;              // default: none
  runner::ShadowCheckOptions shadow;                // default: no replay is compared
  bool keep_inventory = false;                      // for profiles of graphs
  bool strict_graphs = false;
  /// Receives the warnings of compiling; without it a warning is a failure. Borrowed.
  std::vector<std::string>* warnings = nullptr;
};

class TinyEngine {
 public:
  static constexpr int32_t kBlockSize = 16;

  explicit TinyEngine(const TinyEngineOptions& options)
      : config_(load_config(options)),
        own_device_(options.device == nullptr
                        ? device::create_cpu_device({.num_threads = options.num_threads})
                        : nullptr),
        device_(options.device == nullptr ? own_device_.get() : options.device),
        execution_(*device_,
                   options.make_executor ? options.make_executor
                                         : cpu_executor(options.isa.value_or(
                                               kernels::best_isa(device::detect_cpu_features())))),
        own_weights_(options.weights == nullptr ? open_weights(options, config_) : nullptr),
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
            .kv_cache = cache_layout(options, cache),
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

  [[nodiscard]] runner::ModelRunner& runner() { return *runner_; }
  [[nodiscard]] runner::Execution& execution() { return execution_; }
  [[nodiscard]] const weights::ModelConfig& config() const { return config_; }
  [[nodiscard]] const config::ResolvedConfig& resolved() const { return resolved_; }
  [[nodiscard]] size_t weight_bytes() const { return parameters_.total_bytes(); }
  [[nodiscard]] models::Parameters& parameters() { return parameters_; }
  [[nodiscard]] const weights::WeightSource& weights() const { return *weights_; }
  /// nullptr without TinyEngineOptions::lora.
  [[nodiscard]] lora::AdapterSlots* adapters() { return adapters_.get(); }
  [[nodiscard]] models::CausalLM& model() { return *model_; }
  [[nodiscard]] const compile::CompilationReport& compilation() const { return compilation_; }

  [[nodiscard]] std::span<std::byte> kv_bytes() {
    const device::BufferView memory = runner_->kv_cache().memory();
    return {static_cast<std::byte*>(memory.data), memory.bytes};
  }
  /// The bytes of the cache, then those of the states of recurrent layers.
  [[nodiscard]] std::vector<std::byte> save_kv() {
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
  void restore_kv(std::span<const std::byte> saved) {
    for (const device::BufferView& memory :
         {runner_->kv_cache().memory(), runner_->states().memory()}) {
      const size_t count = std::min(memory.bytes, saved.size());
      if (count == 0) continue;
      execution_.stream().copy_from_host(memory.data, saved.data(), count);
      saved = saved.subspan(count);
    }
  }
  /// Fills the cache with plausible small values, like contexts of earlier requests.
  void randomize_kv(uint32_t seed) {
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

  /// A copy of the requested rows of logits.
  [[nodiscard]] std::vector<float> logits(const runner::StepResult& result) {
    std::vector<float> all;
    for (int32_t row = 0; row < result.num_logits; ++row) {
      const std::span<const float> values = runner_->logits_row(result, row);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  [[nodiscard]] kv_cache::KvCacheLayout cache_layout(const TinyEngineOptions& options,
                                                     const kv_cache::CacheDType& cache) const {
    kv_cache::KvCacheLayout layout =
        runner::kv_cache_layout_of(config_, options.num_blocks, kBlockSize, options.dtype, cache);
    layout.num_addressed_blocks = options.num_addressed_blocks;
    return layout;
  }

  // The same steps as in the api layer.
  void compile(const TinyEngineOptions& options,
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
  std::unique_ptr<lora::AdapterSlots> create_adapters(const TinyEngineOptions& options) {
    if (options.lora.max_loras == 0) return nullptr;
    auto adapters =
        std::make_unique<lora::AdapterSlots>(options.lora.max_loras, options.max_lora_rank);
    adapters->set_token_slots(
        parameters_.add_buffer("lora_token_slots", {DType::i32, {options.max_num_tokens}}));
    return adapters;
  }
  static runner::Execution::MakeExecutor cpu_executor(kernels::Isa isa) {
    return [isa](device::Stream& stream, device::MemoryPool& pool) {
      return std::make_unique<kernels::CpuExecutor>(stream, pool, kernels::kernel_table(isa));
    };
  }
  static config::ResolutionInputs resolution_inputs(
      const TinyEngineOptions& options, const std::vector<attention::LayerBackend>& layers) {
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

  static weights::ModelConfig load_config(const TinyEngineOptions& options) {
    return weights::config_of_rank(load_whole_config(options), options.part);
  }
  static weights::ModelConfig load_whole_config(const TinyEngineOptions& options) {
    if (options.model.empty())
      return weights::parse_model_config(options.config, "config.json").config;
    return weights::load_model_config(weights::ModelDirectory(options.model)).config;
  }
  static std::unique_ptr<weights::WeightSource> open_weights(const TinyEngineOptions& options,
                                                             const weights::ModelConfig& config) {
    if (options.part.num_ranks() > 1 || options.part.engines > 1) {
      const weights::ModelConfig whole = load_whole_config(options);
      return std::make_unique<weights::RankWeights>(
          std::make_unique<weights::DummyWeights>(whole, /*seed=*/7), whole, options.part);
    }
    if (options.model.empty()) return std::make_unique<weights::DummyWeights>(config, /*seed=*/7);
    std::unique_ptr<weights::WeightSource> checkpoint = weights::with_class_names(
        std::make_unique<weights::Checkpoint>(
            weights::Checkpoint::open(weights::ModelDirectory(options.model))),
        config);
    if (!config.moe || !config.moe->is_stacked) {
      return weights::with_single_experts(std::move(checkpoint), config);
    }
    return std::make_unique<weights::ExpertMatrices>(std::move(checkpoint), config);
  }

  weights::ModelConfig config_;
  std::unique_ptr<device::Device> own_device_;
  device::Device* device_;
  runner::Execution execution_;
  std::unique_ptr<weights::WeightSource> own_weights_;
  const weights::WeightSource* weights_;
  models::Parameters parameters_;
  std::unique_ptr<lora::AdapterSlots> adapters_;
  std::unique_ptr<models::CausalLM> model_;
  config::ResolvedConfig resolved_;
  std::unique_ptr<runner::ModelRunner> runner_;
  compile::CompilationReport compilation_;
};

/// The kinds of requests in a batch.
enum class Mix { prefill, uniform_decode, mixed, chunked };

inline const char* to_string(Mix mix) {
  switch (mix) {
    case Mix::prefill:
      return "prefill";
    case Mix::uniform_decode:
      return "uniform decode";
    case Mix::mixed:
      return "mixed";
    case Mix::chunked:
      return "chunked";
  }
  return "?";
}

/// A batch of `num_tokens` tokens with different tokens in every row, contexts of different
/// lengths, and separate blocks for every request.
class TestBatch {
 public:
  /// \pre num_tokens >= 1; a mixed batch needs room for at most `max_num_reqs` requests
  TestBatch(Mix mix, int32_t num_tokens, int32_t max_num_reqs, uint32_t seed) : random_(seed) {
    if (mix == Mix::uniform_decode) {
      for (int32_t i = 0; i < num_tokens; ++i) add_request(1, pick(1, 60), true);
    } else if (mix == Mix::prefill) {
      const int32_t reqs = std::min(max_num_reqs, std::max(1, num_tokens / 7));
      add_split(num_tokens, reqs, [](int32_t) { return 0; }, [](int32_t) { return true; });
    } else if (mix == Mix::chunked) {
      const int32_t reqs = std::min(max_num_reqs, std::max(1, num_tokens / 5));
      add_split(
          num_tokens,
          reqs,
          [this](int32_t) { return pick(1, 40); },
          [](int32_t row) { return row % 2 == 0; });
    } else {
      const int32_t decodes = std::min(max_num_reqs - 1, num_tokens / 2);
      for (int32_t i = 0; i < decodes; ++i) add_request(1, pick(1, 60), true);
      add_request(num_tokens - decodes, pick(0, 20), true);
    }
    uniform_ = mix == Mix::uniform_decode;
    requests_.reserve(tokens_.size());
    for (size_t i = 0; i < tokens_.size(); ++i) {
      requests_.push_back(
          {.token_ids = tokens_[i],
           .num_computed_tokens = computed_[i],
           .block_ids = blocks_[i],
           // Not the place in the batch, and within the smallest limits of tests.
           .state_slot = kv_cache::StateSlot{static_cast<int32_t>(tokens_.size() - i)},
           .samples = samples_[i]});
    }
  }

  [[nodiscard]] std::span<const scheduler::StepEntry> requests() const { return requests_; }
  [[nodiscard]] cudagraph::BatchFacts facts() const {
    int32_t tokens = 0;
    for (const auto& row : tokens_) tokens += static_cast<int32_t>(row.size());
    return {.num_tokens = tokens,
            .num_reqs = static_cast<int32_t>(requests_.size()),
            .uniform = uniform_};
  }
  [[nodiscard]] int32_t num_blocks_used() const { return next_block_ - 1; }

 private:
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  template <typename Computed, typename Samples>
  void add_split(int32_t num_tokens, int32_t reqs, Computed computed, Samples samples) {
    for (int32_t row = 0; row < reqs; ++row) {
      const int32_t begin = num_tokens * row / reqs;
      const int32_t end = num_tokens * (row + 1) / reqs;
      add_request(end - begin, computed(row), samples(row));
    }
  }
  void add_request(int32_t query_len, int32_t computed, bool samples) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < query_len; ++i) ids.push_back(pick(0, 96));
    std::vector<kv_cache::BlockId> blocks;
    for (int32_t i = 0; i * TinyEngine::kBlockSize < computed + query_len; ++i) {
      blocks.push_back(kv_cache::BlockId{next_block_++});
    }
    tokens_.push_back(std::move(ids));
    blocks_.push_back(std::move(blocks));
    computed_.push_back(computed);
    samples_.push_back(samples);
  }

  std::mt19937 random_;
  int32_t next_block_ = 1;  // 0 is the null block
  bool uniform_ = false;
  std::vector<std::vector<int32_t>> tokens_;
  std::vector<std::vector<kv_cache::BlockId>> blocks_;
  std::vector<int32_t> computed_;
  std::vector<bool> samples_;
  std::vector<scheduler::StepEntry> requests_;
};

}  // namespace reprise::testing
