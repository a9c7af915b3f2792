// What a GPU does with whole models of random weights and with single parts. Needs the CUDA plug-in
// and a driver. Every figure is a median; modes are measured in one process each, one after the
// other, and again in a second round.
//
//   cuda_benchmark MODEL [OUT.json]      MODEL: 0.5b, 1b, 8b or parts
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/cudagraph/resolution.h"
#include "reprise/engine/model_runner.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/models/parameters.h"
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/model_config.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;
using cudagraph::CudagraphMode;

// Shapes of Qwen2.5-0.5B, Llama-3.2-1B and Llama-3.1-8B.
constexpr const char* kHalfBillion = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
  "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr const char* kOneBillion = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
  "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64,
  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr const char* kEightBillion = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

constexpr int32_t kBlockSize = 16;
constexpr int32_t kContext = 256;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& act) {
  const Clock::time_point start = Clock::now();
  act();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Gpu {
  std::unique_ptr<kernels::Accelerator> accelerator;
  std::unique_ptr<device::Device> device;
};

Gpu open_gpu() {
  kernels::LoadedAccelerator loaded =
      kernels::load_cuda_plugin(kernels::default_cuda_plugin_paths());
  if (loaded.accelerator == nullptr) throw InvalidArgument(loaded.reason);
  Gpu gpu{.accelerator = std::move(loaded.accelerator), .device = nullptr};
  gpu.device = gpu.accelerator->create_device(0);
  return gpu;
}

engine::Execution::MakeExecutor executor_of(const Gpu& gpu) {
  return [&gpu](device::Stream& stream, device::MemoryPool& pool) {
    return gpu.accelerator->create_executor(stream, pool);
  };
}

/// Bytes read and written per second by a copy that no cache holds.
double copy_bandwidth(device::Device& device) {
  constexpr size_t kBytes = size_t{1} << 30;
  const auto stream = device.create_stream();
  const device::Buffer from = device.allocate(kBytes);
  const device::Buffer to = device.allocate(kBytes);
  const auto copy = [&] {
    for (int i = 0; i < 10; ++i) stream->copy(to.data(), from.data(), kBytes);
    stream->synchronize();
  };
  copy();
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) seconds.push_back(seconds_of(copy));
  return 10.0 * 2.0 * static_cast<double>(kBytes) / median(seconds);
}

/// A model of random weights with one kind of graphs.
class Engine {
 public:
  Engine(const Gpu& gpu,
         const weights::ModelConfig& config,
         CudagraphMode mode,
         int32_t max_num_tokens)
      : execution_(*gpu.device, executor_of(gpu)),
        attention_(attention::create_unified_backend()),
        weights_(config, 1),
        parameters_(weights_, DType::bf16, *gpu.device, execution_.stream(), execution_.executor()),
        model_(models::create_model(config, kMaxModelLen, parameters_, *attention_)) {
    parameters_.finish_loading();
    for (int32_t i = 1; i <= kMaxNumSeqs * kBlocksPerReq; ++i) {
      blocks_.push_back(kv_cache::BlockId{i});
    }
    set_mode(config, mode, max_num_tokens);
  }

  /// Graphs of another kind over the same weights.
  void set_mode(const weights::ModelConfig& config, CudagraphMode mode, int32_t max_num_tokens) {
    runner_.reset();
    cudagraph::ResolutionInputs inputs;
    inputs.compilation.cudagraph_mode = mode;
    inputs.compilation.mode = cudagraph::CompilationMode::NONE;
    inputs.attention = {{"UNIFIED", attention_->cudagraph_support()}};
    inputs.max_num_seqs = kMaxNumSeqs;
    inputs.max_num_batched_tokens = max_num_tokens;
    const cudagraph::ResolvedConfig resolved = cudagraph::resolve(inputs);
    runner_ = std::make_unique<engine::ModelRunner>(
        execution_,
        *model_,
        parameters_,
        engine::ModelRunnerOptions{
            .limits = {.max_num_tokens = max_num_tokens,
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
            .dispatcher = cudagraph::dispatcher_options(inputs, resolved),
            .num_warmups = 1});
    capture_ = runner_->capture({});
  }

  /// One step of `requests` requests of `tokens` tokens each, until its results are there.
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
  [[nodiscard]] device::Stream& stream() { return execution_.stream(); }
  [[nodiscard]] const cudagraph::CaptureReport& capture() const { return capture_; }
  [[nodiscard]] const models::Parameters& parameters() const { return parameters_; }
  [[nodiscard]] uint64_t launches() const { return runner_->last_launches().total(); }

 private:
  static constexpr int32_t kMaxNumSeqs = 64;
  static constexpr int32_t kBlocksPerReq = 4096 / kBlockSize;
  static constexpr int32_t kMaxModelLen = 8192;

  engine::Execution execution_;
  std::unique_ptr<attention::AttentionBackend> attention_;
  weights::DummyWeights weights_;
  models::Parameters parameters_;
  std::unique_ptr<models::CausalLM> model_;
  std::vector<kv_cache::BlockId> blocks_;
  std::unique_ptr<engine::ModelRunner> runner_;
  cudagraph::CaptureReport capture_;
  std::vector<int32_t> tokens_;
  std::vector<engine::BatchRow> rows_;
};

Json measure_decode(Engine& engine, int32_t requests, double bandwidth) {
  for (int i = 0; i < 20; ++i) engine.step(requests, 1);
  std::vector<double> steps;
  std::vector<double> host;
  for (int i = 0; i < 200; ++i) {
    steps.push_back(seconds_of([&] { engine.step(requests, 1); }));
    host.push_back(seconds_of([&] { engine.submit(requests, 1); }));
    engine.stream().synchronize();
  }
  const double step = median(steps);
  // Weights once; the embedding's rows and the cache of so short a context are left out.
  const double weight_share =
      static_cast<double>(engine.parameters().total_bytes()) / step / bandwidth;
  return {{"requests", requests},
          {"step_us", step * 1e6},
          {"host_us", median(host) * 1e6},
          {"tokens_per_second", requests / step},
          {"share_of_bandwidth", weight_share},
          {"launches", engine.launches()}};
}

Json measure_model(const Gpu& gpu, const char* text) {
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  const double bandwidth = copy_bandwidth(*gpu.device);
  Json result{{"copy_bandwidth", bandwidth}, {"modes", Json::array()}};
  constexpr int32_t kPrefill = 4096;
  std::unique_ptr<Engine> engine;
  for (int round = 0; round < 2; ++round) {
    for (const CudagraphMode mode : {CudagraphMode::NONE,
                                     CudagraphMode::PIECEWISE,
                                     CudagraphMode::FULL,
                                     CudagraphMode::FULL_AND_PIECEWISE}) {
      if (engine == nullptr) {
        engine = std::make_unique<Engine>(gpu, config, mode, kPrefill);
        result["weight_bytes"] = engine->parameters().total_bytes();
      } else {
        engine->set_mode(config, mode, kPrefill);
      }
      Json row{{"mode", std::string(to_string(mode))},
               {"round", round},
               {"capture_seconds", engine->capture().seconds},
               {"graphs", engine->capture().num_captured()},
               {"decode", Json::array()}};
      for (const int32_t requests : {1, 8, 32}) {
        row["decode"].push_back(measure_decode(*engine, requests, bandwidth));
      }
      result["modes"].push_back(row);
      fmt::print("{}\n", row.dump());
      std::fflush(stdout);
    }
  }
  std::vector<double> prefill;
  for (int i = 0; i < 5; ++i) {
    prefill.push_back(seconds_of([&] { engine->step(1, kPrefill); }));
  }
  const double seconds = median(prefill);
  const double flops = 2.0 * static_cast<double>(engine->parameters().total_bytes()) / 2 * kPrefill;
  result["prefill"] = {{"tokens", kPrefill}, {"seconds", seconds}, {"flops_per_second", flops / seconds}};
  return result;
}

/// Decode attention alone, several times in one graph.
Json measure_attention(const Gpu& gpu, int32_t requests, int32_t context, double bandwidth) {
  constexpr int64_t kHeads = 32;
  constexpr int64_t kKvHeads = 8;
  constexpr int64_t kHeadDim = 128;
  constexpr int kRepeats = 20;
  engine::Execution execution(*gpu.device, executor_of(gpu));
  OpExecutor& executor = execution.executor();
  const int64_t blocks_per_req = context / kBlockSize;
  const int64_t num_blocks = requests * blocks_per_req;
  std::vector<device::Buffer> memory;
  const auto make = [&](DType type, const Shape& shape) {
    memory.push_back(gpu.device->allocate(TensorType{type, shape}.bytes()));
    return Tensor::borrow({type, shape}, memory.back().data(), executor);
  };
  const auto ints = [&](const Shape& shape, const std::function<int32_t(int64_t)>& value) {
    const Tensor tensor = make(DType::i32, shape);
    std::vector<int32_t> values;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(value(i));
    execution.stream().copy_from_host(tensor.data(), values.data(), values.size() * 4);
    return tensor;
  };
  const Shape cache{num_blocks, kKvHeads, int64_t{kBlockSize}, kHeadDim};
  const Tensor q = make(DType::bf16, {int64_t{requests}, kHeads, kHeadDim});
  const Tensor keys = make(DType::bf16, cache);
  const Tensor values = make(DType::bf16, cache);
  // 0x3c3c is a small number; memory as it comes would be zeros.
  for (const Tensor& tensor : {q, keys, values}) {
    execution.stream().fill(tensor.data(), std::byte{0x3c}, tensor.type().bytes());
  }
  const std::array<Tensor, 7> inputs{
      q,
      keys,
      values,
      ints({requests + 1}, [](int64_t i) { return static_cast<int32_t>(i); }),
      ints({int64_t{requests}}, [&](int64_t) { return context; }),
      ints({int64_t{requests}, blocks_per_req},
           [&](int64_t i) { return static_cast<int32_t>(i * 7919 % num_blocks); }),
      make(DType::bf16, {int64_t{requests}, kHeads, kHeadDim})};
  OpCall call{.code = OpCode::attention, .attributes = {}};
  call.attributes.scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim));
  device::Stream& stream = execution.stream();
  device::CaptureScope capture(stream);
  for (int i = 0; i < kRepeats; ++i) executor.execute(call, inputs, {});
  const auto exec = gpu.device->instantiate(*std::move(capture).finish());
  std::vector<double> seconds;
  for (int i = 0; i < 30; ++i) {
    seconds.push_back(seconds_of([&] {
      exec->launch(stream);
      stream.synchronize();
    }));
  }
  const double once = median(seconds) / kRepeats;
  const double bytes = 2.0 * static_cast<double>(keys.type().bytes());
  return {{"requests", requests},
          {"context", context},
          {"microseconds", once * 1e6},
          {"share_of_bandwidth", bytes / once / bandwidth}};
}

/// Time to give an executable graph of many small launches other arguments.
Json measure_update(const Gpu& gpu) {
  constexpr int kNodes = 200;
  engine::Execution execution(*gpu.device, executor_of(gpu));
  const device::Buffer memory = gpu.device->allocate(1 << 20);
  const Tensor x =
      Tensor::borrow({DType::bf16, {64, 1024}}, memory.data(), execution.executor());
  const auto record = [&] {
    device::CaptureScope capture(execution.stream());
    for (int i = 0; i < kNodes; ++i) {
      std::array<Tensor, 1> out;
      execution.executor().execute({.code = OpCode::add, .attributes = {}}, std::array{x, x}, out);
    }
    return std::move(capture).finish();
  };
  const auto graph = record();
  const auto exec = gpu.device->instantiate(*graph);
  std::vector<double> seconds;
  bool is_updated = true;
  for (int i = 0; i < 20; ++i) {
    const auto other = record();
    seconds.push_back(seconds_of([&] { is_updated = exec->update(*other) && is_updated; }));
  }
  return {{"nodes", kNodes}, {"milliseconds", median(seconds) * 1e3}, {"updated", is_updated}};
}

Json measure_parts(const Gpu& gpu) {
  const double bandwidth = copy_bandwidth(*gpu.device);
  return {{"copy_bandwidth", bandwidth},
          {"attention",
           {measure_attention(gpu, 1, 32768, bandwidth),
            measure_attention(gpu, 32, 4096, bandwidth)}},
          {"update", measure_update(gpu)}};
}

int run(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const char* config = what == "0.5b" ? kHalfBillion
                       : what == "1b" ? kOneBillion
                       : what == "8b" ? kEightBillion
                                      : nullptr;
  if (config == nullptr && what != "parts") {
    throw InvalidArgument("usage: cuda_benchmark 0.5b|1b|8b|parts [OUT.json]");
  }
  const Gpu gpu = open_gpu();
  Json result = config != nullptr ? measure_model(gpu, config) : measure_parts(gpu);
  result["what"] = what;
  result["device"] = gpu.device->description();
  fmt::print("{}\n", result.dump(2));
  if (arguments.size() > 1) std::ofstream(arguments[1]) << result.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  try {
    return reprise::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_benchmark: {}\n", error.what());
    return 2;
  }
}
