#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "reprise/api/loading/compile_runner.h"
#include "reprise/base/error.h"
#include "reprise/config/resolution.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/models/parameters.h"
#include "reprise/runner/model_runner.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/dummy_weights.h"

// Common parts of cuda_benchmark's measurements: a GPU, the shapes, and a model of random weights.
namespace reprise::benchmark {

using Clock = std::chrono::steady_clock;
using cudagraph::CudagraphMode;

// Shapes of Qwen2.5-0.5B, Llama-3.2-1B and Llama-3.1-8B.
inline constexpr const char* kHalfBillion = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
  "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
inline constexpr const char* kOneBillion = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
  "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64,
  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
inline constexpr const char* kEightBillion = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

/// Shapes of Qwen2.5-7B, whose weights are often in four bits, and of the experts of a layer of
/// Qwen3-30B-A3B. Only their products are measured.
inline constexpr const char* kSevenBillion = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584,
  "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
  "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu"})";

/// The configuration of "0.5b", "1b" or "8b"; nullptr for another name.
inline const char* config_of(std::string_view name) {
  return name == "0.5b" ? kHalfBillion
         : name == "1b" ? kOneBillion
         : name == "8b" ? kEightBillion
                        : nullptr;
}

inline constexpr int32_t kBlockSize = 16;
inline constexpr int32_t kContext = 256;

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline double seconds_of(const std::function<void()>& act) {
  const Clock::time_point start = Clock::now();
  act();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Gpu {
  std::unique_ptr<kernels::Accelerator> accelerator;
  std::unique_ptr<device::Device> device;
  kernels::CodeTarget code;
};

inline Gpu open_gpu(const kernels::AcceleratorOptions& options = {}) {
  kernels::LoadedAccelerator loaded =
      kernels::load_cuda_plugin(kernels::default_cuda_plugin_paths());
  if (loaded.accelerator == nullptr) throw InvalidArgument(loaded.reason);
  Gpu gpu{.accelerator = std::move(loaded.accelerator), .device = nullptr, .code = {}};
  gpu.device = gpu.accelerator->create_device(options);
  gpu.code = gpu.accelerator->create_code_target(*gpu.device);
  return gpu;
}

inline runner::Execution::MakeExecutor executor_of(
    const Gpu& gpu, kernels::AttentionSource attention = kernels::ExecutorOptions{}.attention) {
  return [&gpu, attention](device::Stream& stream, device::MemoryPool& pool) {
    return gpu.accelerator->create_executor(stream, pool, {.attention = attention});
  };
}

/// Tensors that have a shape and no values: making up numbers on the host would take a minute for
/// 8B.
class ShapesOnly final : public weights::WeightSource {
 public:
  explicit ShapesOnly(const weights::ModelConfig& config) : shapes_(config, 1) {}
  [[nodiscard]] const weights::TensorSpec* find(std::string_view name) const override {
    return shapes_.find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return shapes_.names(); }
  void read(std::string_view, DType, std::span<std::byte>) const override {}
  [[nodiscard]] std::string description() const override { return "random numbers"; }

 private:
  weights::DummyWeights shapes_;
};

/// A model of random weights with one kind of graphs.
class Engine {
 public:
  /// `folder` keeps compiled programs, so that each mode is compiled once; empty: compiled each
  /// time.
  Engine(const Gpu& gpu,
         const weights::ModelConfig& config,
         CudagraphMode mode,
         int32_t max_num_tokens,
         const std::filesystem::path& folder)
      : gpu_(&gpu),
        compile_cache_(folder.empty() ? folder : folder / "compile-cache"),
        execution_(*gpu.device, executor_of(gpu)),
        weights_(config),
        parameters_(weights_, DType::bf16, *gpu.device, execution_.stream(), execution_.executor()),
        model_(models::create_model(config, kMaxModelLen, parameters_)) {
    parameters_.finish_loading();
    fill_at_random();
    for (int32_t i = 1; i <= kMaxNumSeqs * kBlocksPerReq; ++i) {
      blocks_.push_back(kv_cache::BlockId{i});
    }
    set_mode(config, mode, max_num_tokens);
  }

  /// Replaces the graphs by graphs of another mode over the same weights.
  void set_mode(const weights::ModelConfig& config, CudagraphMode mode, int32_t max_num_tokens) {
    runner_.reset();
    config::ResolutionInputs inputs;
    inputs.compilation.cudagraph_mode = mode;
    inputs.compilation.mode = config::CompilationMode::VLLM_COMPILE;
    inputs.attention = {{"UNIFIED", cudagraph::AttentionCGSupport::ALWAYS}};
    inputs.max_num_seqs = kMaxNumSeqs;
    inputs.max_num_batched_tokens = max_num_tokens;
    const config::ResolvedConfig resolved = config::resolve(inputs);
    runner_ = std::make_unique<runner::ModelRunner>(
        execution_,
        *model_,
        parameters_,
        runner::ModelRunnerOptions{.limits = {.max_num_tokens = max_num_tokens,
                                              .max_num_reqs = kMaxNumSeqs,
                                              .max_num_prompt_logits = 0,
                                              .max_blocks_per_req = kBlocksPerReq,
                                              .block_size = kBlockSize},
                                   .kv_cache = {.num_layers = config.num_hidden_layers,
                                                .num_blocks = kMaxNumSeqs * kBlocksPerReq + 1,
                                                .num_kv_heads = config.num_key_value_heads,
                                                .block_size = kBlockSize,
                                                .head_dim = config.head_dim,
                                                .dtype = DType::bf16},
                                   .dispatcher = config::dispatcher_options(inputs, resolved),
                                   .num_warmups = 1});
    compile(inputs.compilation, resolved);
    capture_ = runner_->capture({});
  }

  /// Runs one step of `requests` requests with `tokens` tokens each and waits for the results.
  void step(int32_t requests, int32_t tokens) {
    submit(requests, tokens);
    execution_.stream().synchronize();
  }
  void submit(int32_t requests, int32_t tokens) {
    tokens_.assign(static_cast<size_t>(tokens), 7);
    rows_.clear();
    for (int32_t r = 0; r < requests; ++r) {
      rows_.push_back({.token_ids = tokens_,
                       .num_computed_tokens = tokens > 1 ? 0 : kContext - 1,
                       .block_ids = std::span(blocks_).subspan(
                           static_cast<size_t>(r * kBlocksPerReq), kBlocksPerReq),
                       .samples = true});
    }
    (void)runner_->execute(rows_,
                           {.num_tokens = requests * tokens,
                            .num_reqs = requests,
                            .uniform = tokens == 1,
                            .num_logits = requests});
  }
  [[nodiscard]] runner::ModelRunner& runner() { return *runner_; }
  [[nodiscard]] device::Stream& stream() { return execution_.stream(); }
  [[nodiscard]] kernels::DeviceExecutor& executor() { return execution_.executor(); }
  /// set_mode() must follow.
  void drop_graphs() { runner_.reset(); }
  [[nodiscard]] const cudagraph::CaptureReport& capture() const { return capture_; }
  [[nodiscard]] const models::Parameters& parameters() const { return parameters_; }
  [[nodiscard]] uint64_t launches() const { return runner_->last_launches().total(); }

  static constexpr int32_t kMaxNumSeqs = 64;

 private:
  void compile(const config::CompilationConfig& compilation,
               const config::ResolvedConfig& resolved) {
    compile::ModelCompiler compiler(
        {.asked = compilation,
         .resolved = resolved,
         .isa = execution_.executor().kernels().isa,
         .generator = compile::cuda_code_generator(gpu_->code.architecture, *gpu_->code.loader),
         .norm_prologue_max_token_num = execution_.executor().norm_prologue_max_token_num(),
         .cache_root = compile_cache_,
         .disable_cache = compile_cache_.empty()});
    api::compile_runner(compiler, *runner_, runner::ForwardKind::base);
    const compile::CompilationReport& report = compiler.report();
    // Without compiled programs the model would run more slowly, and the figures would be wrong.
    if (!report.refused.empty()) throw InvalidArgument("not compiled: " + report.refused);
    for (const std::string& warning : compiler.warnings()) fmt::print("{}\n", warning);
    fmt::print("{} of {} row groups generated, backend {}, {:.3f} s\n",
               report.counter.num_generated_kernels,
               report.counter.num_fused_groups,
               report.backend,
               report.seconds.codegen);
  }

  /// Small numbers of both signs, different in each row of a tensor, copied on the GPU.
  void fill_at_random() {
    constexpr size_t kBlockBytes = size_t{32} << 20;
    std::vector<uint16_t> numbers(kBlockBytes / sizeof(uint16_t));
    uint32_t state = 1;
    for (uint16_t& number : numbers) {
      state = state * 1664525U + 1013904223U;
      // bfloat16 from 2^-7 to 2^-5.
      number = static_cast<uint16_t>((state >> 31 << 15) | 0x3c00U | (state >> 20 & 0xffU));
    }
    const device::Buffer block = gpu_->device->allocate(kBlockBytes);
    device::Stream& stream = execution_.stream();
    stream.copy_from_host(block.data(), numbers.data(), kBlockBytes);
    for (const device::BufferView& memory : parameters_.memory()) {
      for (size_t done = 0; done < memory.bytes; done += kBlockBytes) {
        stream.copy(static_cast<std::byte*>(memory.data) + done,
                    block.data(),
                    std::min(kBlockBytes, memory.bytes - done));
      }
    }
    stream.synchronize();
  }

  static constexpr int32_t kBlocksPerReq = 4096 / kBlockSize;
  static constexpr int32_t kMaxModelLen = 8192;

  const Gpu* gpu_;  // outlives this
  std::filesystem::path compile_cache_;
  runner::Execution execution_;
  ShapesOnly weights_;
  models::Parameters parameters_;
  std::unique_ptr<models::CausalLM> model_;
  std::vector<kv_cache::BlockId> blocks_;
  std::unique_ptr<runner::ModelRunner> runner_;
  cudagraph::CaptureReport capture_;
  std::vector<int32_t> tokens_;
  std::vector<scheduler::StepEntry> rows_;
};

}  // namespace reprise::benchmark
