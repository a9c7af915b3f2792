#include "benchmarks/cuda_serving.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>
#include <thread>

#include "reprise/engine/engine_core.h"

namespace reprise::benchmark {
namespace {

constexpr int kNumRequests = 100;
constexpr double kRequestsPerSecond = 20;
constexpr int kMeanInput = 230;
constexpr int kMeanOutput = 215;
constexpr int32_t kMaxBatchedTokens = 2048;

struct TimedRequest {
  double arrival = 0;  // seconds since the start
  std::vector<int32_t> prompt;
  int num_outputs = 0;
  std::vector<double> token_times;
};

/// Makes the same requests for every mode: Poisson arrivals, and lengths between half and one and a
/// half of the mean.
std::vector<TimedRequest> make_requests(int64_t vocab_size) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> gap(kRequestsPerSecond);
  std::uniform_int_distribution<int> input(kMeanInput / 2, kMeanInput * 3 / 2);
  std::uniform_int_distribution<int> output(kMeanOutput / 2, kMeanOutput * 3 / 2);
  std::uniform_int_distribution<int32_t> token(1, static_cast<int32_t>(vocab_size) - 1);
  std::vector<TimedRequest> requests(kNumRequests);
  double now = 0;
  for (TimedRequest& request : requests) {
    request.arrival = now;
    now += gap(random);
    request.prompt.resize(static_cast<size_t>(input(random)));
    for (int32_t& id : request.prompt) id = token(random);
    request.num_outputs = output(random);
  }
  return requests;
}

/// Runs all requests. \returns the seconds that this took
double serve(engine::EngineCore& core, std::vector<TimedRequest>& requests) {
  const Clock::time_point start = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  size_t next = 0;
  uint64_t first_id = 0;
  while (next < requests.size() || core.has_unfinished_requests()) {
    while (next < requests.size() && requests[next].arrival <= now()) {
      // Qwen3's generation config: the device samples with it.
      sampling::SamplingParams params{.temperature = 0.6F,
                                      .top_p = 0.95F,
                                      .top_k = 20,
                                      .max_tokens = requests[next].num_outputs,
                                      .ignore_eos = true};
      const auto id = static_cast<uint64_t>(core.add_request(requests[next].prompt, params));
      if (next++ == 0) first_id = id;
    }
    if (!core.has_unfinished_requests()) {
      std::this_thread::sleep_for(std::chrono::duration<double>(requests[next].arrival - now()));
      continue;
    }
    for (const engine::EngineCore::Update& update : core.step()) {
      if (!update.new_token_id) continue;
      const uint64_t index = static_cast<uint64_t>(update.request->id()) - first_id;
      requests[index].token_times.push_back(now());
    }
  }
  return now();
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double percentile_99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) * 99 / 100];
}

void add_statistics(Json& row, const std::string& name, const std::vector<double>& milliseconds) {
  row["mean_" + name + "_ms"] = mean(milliseconds);
  row["median_" + name + "_ms"] = median(milliseconds);
  row["p99_" + name + "_ms"] = percentile_99(milliseconds);
}

Json summarise(const std::vector<TimedRequest>& requests, double duration) {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  size_t inputs = 0;
  size_t outputs = 0;
  for (const TimedRequest& request : requests) {
    const std::vector<double>& times = request.token_times;
    if (times.empty()) throw Error("a request got no tokens");
    inputs += request.prompt.size();
    outputs += times.size();
    ttft.push_back((times.front() - request.arrival) * 1e3);
    if (times.size() < 2) continue;
    tpot.push_back((times.back() - times.front()) / static_cast<double>(times.size() - 1) * 1e3);
    for (size_t i = 1; i < times.size(); ++i) itl.push_back((times[i] - times[i - 1]) * 1e3);
  }
  Json row{{"duration", duration},
           {"total_input_tokens", inputs},
           {"total_output_tokens", outputs},
           {"request_throughput", static_cast<double>(requests.size()) / duration},
           {"output_throughput", static_cast<double>(outputs) / duration}};
  add_statistics(row, "ttft", ttft);
  add_statistics(row, "tpot", tpot);
  add_statistics(row, "itl", itl);
  return row;
}

}  // namespace

void measure_serving(const Gpu& gpu, const char* text, RowLog& log) {
  const weights::ModelConfig config = weights::parse_model_config(text, "config").config;
  constexpr std::array kModes = {cudagraph::CudagraphMode::PIECEWISE,
                                 cudagraph::CudagraphMode::FULL,
                                 cudagraph::CudagraphMode::FULL_AND_PIECEWISE};
  Engine engine(gpu, config, kModes[0], kMaxBatchedTokens, log.folder());
  const std::unique_ptr<kernels::RowSampler> sampler = gpu.accelerator->create_row_sampler(
      engine.stream(), Engine::kMaxNumSeqs, config.vocab_size, Engine::kMaxNumSeqs);
  for (int round = 0; round < 2; ++round) {
    for (const cudagraph::CudagraphMode mode : kModes) {
      engine.set_mode(config, mode, kMaxBatchedTokens);
      engine::EngineCore core(engine.runner(),
                              {.scheduler = {.max_num_seqs = Engine::kMaxNumSeqs,
                                             .max_num_batched_tokens = kMaxBatchedTokens,
                                             .max_model_len = 4096,
                                             .vocab_size = static_cast<int>(config.vocab_size)},
                               .enable_prefix_caching = false,
                               .row_sampler = sampler.get()});
      std::vector<TimedRequest> requests = make_requests(config.vocab_size);
      const double duration = serve(core, requests);
      Json row = summarise(requests, duration);
      row["mode"] = std::string(to_string(mode));
      row["round"] = round;
      row["requests"] = kNumRequests;
      row["request_rate"] = kRequestsPerSecond;
      row["method"] = "engine-level load, no server, no tokenizer";
      log.add("serving", row);
    }
  }
}

}  // namespace reprise::benchmark
