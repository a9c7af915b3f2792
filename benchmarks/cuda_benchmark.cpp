// Measures whole models of random weights and single parts on a GPU. Needs the CUDA plug-in and a
// driver. Every figure is a median. Each mode is measured in its own process; all modes are then
// measured again in a second round.
//
//   cuda_benchmark WHAT [OUT.json]
//     0.5b, 1b, 8b   decoding by mode and number of requests; decoding with and without
//                    programmatic dependent launch; a prefill
//     launch NAME    only decoding with and without programmatic dependent launch
//     serving        requests that arrive at random, by mode, 1B shape
//     parts          attention of decoding and of a prompt, matrix products, update of a graph
//     config NAME    prints the shape of 0.5b, 1b or 8b
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/cuda_gemm.h"
#include "benchmarks/cuda_model.h"
#include "benchmarks/cuda_read.h"
#include "benchmarks/cuda_serving.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::benchmark {
namespace {

using cudagraph::CudagraphMode;

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
  // The weights are read once per step. The embedding's rows and the cache of this short context
  // are not counted.
  const double weight_share =
      static_cast<double>(engine.parameters().total_bytes()) / step / bandwidth;
  return {{"requests", requests},
          {"step_us", step * 1e6},
          {"host_us", median(host) * 1e6},
          {"tokens_per_second", requests / step},
          {"share_of_bandwidth", weight_share},
          {"launches", engine.launches()}};
}

/// Measures one request in FULL mode with and without programmatic dependent launch, in turns over
/// the same weights.
Json measure_programmatic_launch(const Gpu& gpu,
                                 Engine& engine,
                                 const weights::ModelConfig& config,
                                 double bandwidth) {
  Json result{{"off", Json::array()}, {"on", Json::array()}};
  for (int round = 0; round < 3; ++round) {
    for (const bool is_on : {false, true}) {
      engine.stream().synchronize();
      gpu.accelerator->set_programmatic_launch(*gpu.device, is_on);
      engine.set_mode(config, CudagraphMode::FULL, kContext);
      result[is_on ? "on" : "off"].push_back(measure_decode(engine, 1, bandwidth));
    }
  }
  gpu.accelerator->set_programmatic_launch(*gpu.device, false);
  const auto speed = [&](const char* side) {
    std::vector<double> values;
    for (const Json& row : result[side]) values.push_back(row["tokens_per_second"].get<double>());
    return median(values);
  };
  result["on_over_off"] = speed("on") / speed("off");
  fmt::print("programmatic dependent launch: {:.3f}x tokens/s\n",
             result["on_over_off"].get<double>());
  return result;
}

Json measure_launch(const Gpu& gpu, const char* text) {
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  Engine engine(gpu, config, CudagraphMode::FULL, kContext);
  return measure_programmatic_launch(gpu, engine, config, read_bandwidth(*gpu.device));
}

Json measure_model(const Gpu& gpu, const char* text) {
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  const double bandwidth = read_bandwidth(*gpu.device);
  Json result{{"read_bandwidth", bandwidth}, {"modes", Json::array()}};
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
  // Counts the matrix products of all rows: the embedding multiplies nothing, the head only the
  // last row. Attention is not counted, so the share of the peak is a lower bound.
  const int64_t tables =
      config.vocab_size * config.hidden_size * (config.tie_word_embeddings ? 1 : 2);
  const double weights =
      static_cast<double>(engine->parameters().total_bytes()) / 2 - static_cast<double>(tables);
  const double flops = 2.0 * weights * kPrefill / seconds;
  const double peak = gemm_peak(gpu);
  result["prefill"] = {{"tokens", kPrefill},
                       {"seconds", seconds},
                       {"flops_per_second", flops},
                       {"gemm_peak", peak},
                       {"share_of_peak", flops / peak}};
  result["launch"] = measure_programmatic_launch(gpu, *engine, config, bandwidth);
  return result;
}

constexpr int64_t kHeads = 32;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kHeadDim = 128;

/// Measures attention alone, for the last `query_len` tokens of each context. One graph runs the op
/// several times.
/// \returns seconds of one run
double time_attention(const Gpu& gpu, int32_t requests, int32_t context, int32_t query_len) {
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
  const Shape tokens{int64_t{requests} * query_len, kHeads, kHeadDim};
  const Tensor q = make(DType::bf16, tokens);
  const Tensor keys = make(DType::bf16, cache);
  const Tensor values = make(DType::bf16, cache);
  // Fills the memory with a small number (0x3c3c); fresh memory would be zeros.
  for (const Tensor& tensor : {q, keys, values}) {
    execution.stream().fill(tensor.data(), std::byte{0x3c}, tensor.type().bytes());
  }
  const std::array<Tensor, 7> inputs{
      q,
      keys,
      values,
      ints({requests + 1}, [&](int64_t i) { return static_cast<int32_t>(i * query_len); }),
      ints({int64_t{requests}}, [&](int64_t) { return context; }),
      ints({int64_t{requests}, blocks_per_req},
           [&](int64_t i) { return static_cast<int32_t>(i * 7919 % num_blocks); }),
      make(DType::bf16, tokens)};
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
  return median(seconds) / kRepeats;
}

Json measure_decode_attention(const Gpu& gpu, int32_t requests, int32_t context, double bandwidth) {
  const double once = time_attention(gpu, requests, context, 1);
  // Keys and values have 16 bits, and each is read once.
  const double bytes = 2.0 * 2.0 * kKvHeads * kHeadDim * requests * context;
  return {{"requests", requests},
          {"context", context},
          {"microseconds", once * 1e6},
          {"share_of_bandwidth", bytes / once / bandwidth}};
}

/// Measures attention of a prompt. Each token sees only the tokens before it, which halves the
/// products.
Json measure_prompt_attention(const Gpu& gpu, int32_t tokens) {
  const double once = time_attention(gpu, 1, tokens, tokens);
  const double flops = 4.0 * kHeads * kHeadDim * tokens * tokens / 2;
  return {{"tokens", tokens}, {"microseconds", once * 1e6}, {"flops_per_second", flops / once}};
}

/// Measures the time to change the arguments in an executable graph of many small launches.
Json measure_update(const Gpu& gpu) {
  constexpr int kNodes = 200;
  engine::Execution execution(*gpu.device, executor_of(gpu));
  const device::Buffer memory = gpu.device->allocate(1 << 20);
  const Tensor x = Tensor::borrow({DType::bf16, {64, 1024}}, memory.data(), execution.executor());
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
  const double bandwidth = read_bandwidth(*gpu.device);
  return {{"read_bandwidth", bandwidth},
          {"attention",
           {measure_decode_attention(gpu, 1, 32768, bandwidth),
            measure_decode_attention(gpu, 32, 4096, bandwidth)}},
          {"prompt_attention", measure_prompt_attention(gpu, 4096)},
          {"gemm_peak", gemm_peak(gpu)},
          {"update", measure_update(gpu)}};
}

Json measure(const Gpu& gpu, const std::string& what) {
  if (what == "parts") return measure_parts(gpu);
  if (what == "serving") return measure_serving(gpu, kOneBillion);
  return measure_model(gpu, config_of(what));
}

int run(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what == "config" && arguments.size() == 2 && config_of(arguments[1]) != nullptr) {
    fmt::print("{}\n", config_of(arguments[1]));
    return 0;
  }
  if (what == "launch" && arguments.size() == 2 && config_of(arguments[1]) != nullptr) {
    fmt::print("{}\n", measure_launch(open_gpu(), config_of(arguments[1])).dump(2));
    return 0;
  }
  if (what != "parts" && what != "serving" && config_of(what) == nullptr) {
    throw InvalidArgument(
        "usage: cuda_benchmark 0.5b|1b|8b|serving|parts [OUT.json], or cuda_benchmark "
        "launch|config "
        "NAME");
  }
  const Gpu gpu = open_gpu();
  Json result = measure(gpu, what);
  result["what"] = what;
  result["device"] = gpu.device->description();
  fmt::print("{}\n", result.dump(2));
  if (arguments.size() > 1) std::ofstream(arguments[1]) << result.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace reprise::benchmark

int main(int argc, char** argv) {
  try {
    return reprise::benchmark::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_benchmark: {}\n", error.what());
    return 2;
  }
}
