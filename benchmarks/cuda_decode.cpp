#include "benchmarks/cuda_decode.h"

#include <array>
#include <vector>

#include "benchmarks/cuda_gemm.h"
#include "benchmarks/cuda_read.h"
#include "reprise/weights/config/expected_tensors.h"

namespace reprise::benchmark {
namespace {

constexpr int32_t kPrefillTokens = 4096;
constexpr int64_t kBytesPerElement = 2;

/// The results of one model that all its measurements add to.
struct Measured {
  const Gpu& gpu;
  const weights::ModelConfig& config;
  double bandwidth;
  RowLog& log;
};

Json decode_row(const Measured& measured, Engine& engine, int32_t requests) {
  for (int i = 0; i < 20; ++i) engine.step(requests, 1);
  std::vector<double> steps;
  std::vector<double> host;
  for (int i = 0; i < 100; ++i) {
    steps.push_back(seconds_of([&] { engine.step(requests, 1); }));
    host.push_back(seconds_of([&] { engine.submit(requests, 1); }));
    engine.stream().synchronize();
  }
  const double step = median(steps);
  const double bytes = bytes_of_decode_step(measured.config, requests, kContext);
  return {{"requests", requests},
          {"step_us", step * 1e6},
          {"host_us", median(host) * 1e6},
          {"tokens_per_second", requests / step},
          {"bytes", bytes},
          {"share_of_bandwidth", bytes / step / measured.bandwidth},
          {"launches", engine.launches()}};
}

/// Measures decoding with one kind of graphs.
void measure_mode(const Measured& measured,
                  Engine& engine,
                  CudagraphMode mode,
                  std::span<const int32_t> requests,
                  int round) {
  const auto describe = [&](Json row) {
    row["mode"] = std::string(to_string(mode));
    row["round"] = round;
    return row;
  };
  measured.log.add("capture",
                   describe({{"capture_seconds", engine.capture().seconds},
                             {"graphs", engine.capture().num_captured()}}));
  for (const int32_t count : requests) {
    measured.log.add("decode", describe(decode_row(measured, engine, count)));
  }
}

/// Programmatic dependent launch off and on, with FULL graphs, one request and the same weights.
void measure_programmatic_launch(const Measured& measured, Engine& engine, int round) {
  for (const bool is_on : {false, true}) {
    engine.stream().synchronize();
    measured.gpu.accelerator->set_programmatic_launch(*measured.gpu.device, is_on);
    engine.set_mode(measured.config, CudagraphMode::FULL, kContext);
    Json row = decode_row(measured, engine, 1);
    row["programmatic"] = is_on;
    row["round"] = round;
    measured.log.add("launch", row);
  }
  measured.gpu.accelerator->set_programmatic_launch(*measured.gpu.device, false);
}

void measure_prefill(const Measured& measured, Engine& engine) {
  std::vector<double> times;
  for (int i = 0; i < 4; ++i) {
    times.push_back(seconds_of([&] { engine.step(1, kPrefillTokens); }));
  }
  const double seconds = median(times);
  // Counts the products of all rows. The embedding multiplies nothing, and the head multiplies only
  // the last row. Attention is left out, so the share of the peak is a lower bound.
  const int64_t tables = measured.config.vocab_size * measured.config.hidden_size *
                         (measured.config.tie_word_embeddings ? 1 : 2);
  const auto weights = static_cast<double>(weights::num_parameters(measured.config) - tables);
  const double flops = 2.0 * weights * kPrefillTokens / seconds;
  const double peak = gemm_peak(measured.gpu);
  measured.log.add("prefill",
                   {{"tokens", kPrefillTokens},
                    {"seconds", seconds},
                    {"flops_per_second", flops},
                    {"gemm_peak", peak},
                    {"share_of_peak", flops / peak}});
}

}  // namespace

double bytes_of_decode_step(const weights::ModelConfig& config, int32_t requests, int32_t context) {
  int64_t elements = weights::num_parameters(config);
  if (!config.tie_word_embeddings) elements -= config.vocab_size * config.hidden_size;
  elements += int64_t{2} * config.num_hidden_layers * config.num_key_value_heads * config.head_dim *
              context * requests;
  return static_cast<double>(elements * kBytesPerElement);
}

void measure_model(const Gpu& gpu, const char* text, double seconds, RowLog& log) {
  const Clock::time_point start = Clock::now();
  const auto left = [&] {
    return seconds - std::chrono::duration<double>(Clock::now() - start).count();
  };
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  const Measured measured{
      .gpu = gpu, .config = config, .bandwidth = read_bandwidth(*gpu.device), .log = log};
  log.add("model",
          {{"device", gpu.device->description()},
           {"bytes_per_step", bytes_of_decode_step(config, 1, kContext)},
           {"read_bandwidth", measured.bandwidth}});
  Engine engine(gpu, config, CudagraphMode::FULL, kPrefillTokens, log.folder());
  constexpr std::array kRequests = {1, 8, 32, 64};
  measure_mode(measured, engine, CudagraphMode::FULL, kRequests, 0);
  measure_prefill(measured, engine);
  measure_programmatic_launch(measured, engine, 0);
  constexpr std::array kModes = {CudagraphMode::NONE,
                                 CudagraphMode::FULL_AND_PIECEWISE,
                                 CudagraphMode::PIECEWISE,
                                 CudagraphMode::FULL};
  for (int round = 1; round <= 3; ++round) {
    const double before = left();
    for (const CudagraphMode mode : kModes) {
      engine.set_mode(config, mode, kPrefillTokens);
      measure_mode(measured, engine, mode, std::span(kRequests).first(1), round);
    }
    measure_programmatic_launch(measured, engine, round);
    if (before - left() > left()) return;  // another round would not fit
  }
}

void measure_launch(const Gpu& gpu, const char* text, RowLog& log) {
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  const Measured measured{
      .gpu = gpu, .config = config, .bandwidth = read_bandwidth(*gpu.device), .log = log};
  Engine engine(gpu, config, CudagraphMode::FULL, kContext, log.folder());
  for (int round = 0; round < 3; ++round) measure_programmatic_launch(measured, engine, round);
}

}  // namespace reprise::benchmark
