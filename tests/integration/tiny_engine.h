#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/compile/model/model_compiler.h"
#include "reprise/config/resolution.h"
#include "reprise/lora/adapter_slots.h"
#include "reprise/parallel/communicator.h"
#include "reprise/runner/model_runner.h"
#include "reprise/tensor/weight_families.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/rank_weights.h"
#include "reprise/weights/weight_source.h"

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

/// Recurrent layers around one attention layer: Mamba-2, a gated delta net with experts, and short
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
  /// All other members of the compilation config; mode and cudagraph_mode are above.
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
  /// The backend of the recurrent layers of a model that also has attention. Default: as above.
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
  /// The number of state slots besides one for each request.
  int32_t num_state_snapshots = 0;
  /// Makes the model, if it is not the model of `config`, but a draft head.
  std::function<std::unique_ptr<models::CausalLM>(models::Parameters&)> make_model;
  models::AuxiliaryStates auxiliary = {};  // the hidden states of the model that a draft head reads
  /// Weights for `config`, instead of random ones. Borrowed.
  const weights::WeightSource* weights = nullptr;
  WeightFamilies weight_families = {};
  std::optional<kernels::Isa> isa;   // default: the best one
  device::Device* device = nullptr;  // borrowed; default: the engine makes its own CPU device
  /// The ranks to which this engine belongs. Borrowed; default: this is the only rank.
  parallel::Communicator* ranks = nullptr;
  /// How several ranks divide the model, and which rank this is.
  weights::RankOfModel part;
  /// The second group of ranks, see ModelRunnerOptions.
  parallel::Communicator* op_ranks = nullptr;
  /// The engines that run their steps together with this engine. Borrowed; default: none.
  runner::DataParallelSteps* data_parallel = nullptr;
  runner::Execution::MakeExecutor make_executor;  // default: an executor of the CPU's kernels
  // For a borrowed device; the CPU device has its own generator.
  std::optional<compile::CodeGenerator> generator;
  std::filesystem::path compile_cache;  // default: none
  runner::ShadowCheckOptions shadow;    // default: no replay is compared
  bool keep_inventory = false;          // for profiles of graphs
  bool strict_graphs = false;
  /// Receives the warnings of compiling; without it a warning is a failure. Borrowed.
  std::vector<std::string>* warnings = nullptr;
};

class TinyEngine {
 public:
  static constexpr int32_t kBlockSize = 16;

  explicit TinyEngine(const TinyEngineOptions& options);

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

  [[nodiscard]] std::span<std::byte> kv_bytes();
  /// The bytes of the cache, then those of the states of recurrent layers.
  [[nodiscard]] std::vector<std::byte> save_kv();
  void restore_kv(std::span<const std::byte> saved);
  /// Fills the cache with plausible small values, like contexts of earlier requests.
  void randomize_kv(uint32_t seed);

  /// A copy of the requested rows of logits.
  [[nodiscard]] std::vector<float> logits(const runner::StepResult& result);

 private:
  void compile(const TinyEngineOptions& options,
               const config::CompilationConfig& asked,
               runner::ForwardKind kind);
  std::unique_ptr<lora::AdapterSlots> create_adapters(const TinyEngineOptions& options);

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

}  // namespace reprise::testing
