// What a GPU does with whole models of random weights and with single parts. Needs the CUDA plug-in
// and a driver. Every figure is a median. Each row is printed, and written to ROWS if it is named,
// as soon as it is measured.
//
//   cuda_benchmark WHAT [ROWS [SECONDS]]
//     0.5b, 1b, 8b   decoding by mode and number of requests, with programmatic dependent launch
//     and
//                    without, and a prefill; as many rounds as fit into SECONDS (60)
//     serving        requests that arrive at random, by mode, 1B shape
//     parts          attention of decoding and of a prompt, products, update of a graph
//     attention      attention by the project's kernels and by FlashInfer's; latent attention
//     streamed       products of few rows, by the usual kernels and by those with bulk copies
//     sampling       the sampler alone
//     rehearse       rows without a GPU, for the test of gpu_check.sh
//   cuda_benchmark launch NAME [ROWS]   decoding with programmatic dependent launch and without
//   cuda_benchmark config NAME          prints the shape of 0.5b, 1b or 8b
//   cuda_benchmark bytes NAME           prints the bytes that a decoding step of one request reads
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/cuda_decode.h"
#include "benchmarks/cuda_latents.h"
#include "benchmarks/cuda_model.h"
#include "benchmarks/cuda_parts.h"
#include "benchmarks/cuda_serving.h"
#include "benchmarks/cuda_streamed.h"
#include "benchmarks/cuda_tune.h"
#include "benchmarks/row_log.h"
#include "reprise/base/error.h"

namespace reprise::benchmark {
namespace {

constexpr const char* kUsage =
    "usage: cuda_benchmark 0.5b|1b|8b|serving|parts|attention|streamed|sampling|tune|rehearse "
    "[ROWS "
    "[SECONDS]], or "
    "cuda_benchmark launch|config|bytes 0.5b|1b|8b";

/// Writes rows of all lengths until the process is ended.
void rehearse(RowLog& log) {
  for (int i = 0;; ++i) {
    log.add("rehearsed", {{"text", std::string(static_cast<size_t>(i * 37 % 3000), 'x')}});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int say(const std::string& what, const char* config) {
  if (what == "config") {
    fmt::print("{}\n", config);
  } else {
    fmt::print(
        "{:.0f}\n",
        bytes_of_decode_step(weights::parse_model_config(config, "config").config, 1, kContext));
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t i) { return i < arguments.size() ? arguments[i] : ""; };
  const std::string what = argument(0);
  if ((what == "config" || what == "bytes") && config_of(argument(1)) != nullptr)
    return say(what, config_of(argument(1)));
  if (what == "launch" && config_of(argument(1)) != nullptr) {
    RowLog log(what + " " + argument(1), argument(2));
    measure_launch(open_gpu(), config_of(argument(1)), log);
    return 0;
  }
  constexpr std::array kParts = {"parts", "attention", "sampling", "serving", "streamed", "tune"};
  const bool is_part = std::ranges::find(kParts, what) != kParts.end();
  if (!is_part && what != "rehearse" && config_of(what) == nullptr) throw InvalidArgument(kUsage);
  RowLog log(what, argument(1));
  if (what == "rehearse") rehearse(log);
  const double seconds = argument(2).empty() ? 60 : std::strtod(argument(2).c_str(), nullptr);
  const Gpu gpu = open_gpu();
  if (what == "parts") {
    measure_parts(gpu, log);
  } else if (what == "attention") {
    measure_attention(gpu, log);
    measure_latents(gpu, log);
  } else if (what == "sampling") {
    measure_sampling(gpu, log);
  } else if (what == "serving") {
    measure_serving(gpu, kOneBillion, log);
  } else if (what == "streamed") {
    measure_streamed_products(gpu, seconds, log);
  } else if (what == "tune") {
    measure_tuning(gpu, seconds, log);
  } else {
    measure_model(gpu, config_of(what), seconds, log);
  }
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
