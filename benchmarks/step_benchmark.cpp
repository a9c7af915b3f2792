// Measures the host's work for one decode step besides the model: scheduling, dispatching, staging
// the batch and applying its results, with all requests running. Prints text for people.
//
//   step_benchmark [num_requests] [max_model_len]
//
// Times are CPU times of the thread, so other jobs on the machine matter only by their effect on
// its caches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/input_batch.h"
#include "reprise/scheduler/scheduler.h"

namespace {

using namespace reprise;

constexpr int kBlockSize = 16;
constexpr int kPromptTokens = 200;
constexpr int kWarmups = 64;
constexpr int kSteps = 1000;  // each request fills a block every 16 steps, each at another step

double thread_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// The number in the text; 0 if the text is not a number.
int number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

struct Part {
  const char* name;
  std::vector<double> microseconds = {};
};

void print(Part& part) {
  std::sort(part.microseconds.begin(), part.microseconds.end());
  const auto at = [&part](double share) {
    const auto last = static_cast<double>(part.microseconds.size() - 1);
    return part.microseconds[static_cast<size_t>(share * last)];
  };
  fmt::print(
      "{:<28} {:8.1f} {:8.1f} {:8.1f} {:8.1f}\n", part.name, at(0), at(0.5), at(0.9), at(0.99));
}

/// The persistent state of a server in which all requests decode.
class Server {
 public:
  Server(int num_requests, int max_model_len)
      : num_requests_(num_requests),
        max_blocks_((max_model_len + kBlockSize - 1) / kBlockSize),
        device_(device::create_cpu_device({.num_threads = 1})),
        execution_(*device_, kernels::kernel_table(kernels::Isa::scalar)),
        batch_({.max_num_tokens = 2048,
                .max_num_reqs = num_requests,
                .max_blocks_per_req = max_blocks_,
                .block_size = kBlockSize},
               *device_,
               execution_.executor()),
        cache_(1 + num_requests * ((kPromptTokens + kWarmups + kSteps) / kBlockSize + 3),
               kBlockSize,
               kv_cache::PrefixCaching::on),
        scheduler_({.max_num_seqs = num_requests,
                    .max_num_batched_tokens = 2048,
                    .max_model_len = max_model_len,
                    .vocab_size = 100'000},
                   cache_),
        sampled_(static_cast<size_t>(num_requests), sampling::SampledToken{.token_id = 7}) {
    dispatcher_.initialize_cudagraph_keys(
        {.mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
         .max_num_seqs = num_requests,
         .mixed_capture_sizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
         .decode_capture_sizes = {1, 2, 4, 8, 16, 32, 64, 128, num_requests}});
    dispatcher_.mark_all_captured();
    for (int i = 0; i < num_requests; ++i) {
      // The prompts differ in length, so that in every step some requests fill a block.
      std::vector<int32_t> prompt(static_cast<size_t>(kPromptTokens - i % kBlockSize), i);
      requests_.push_back(std::make_unique<scheduler::Request>(
          scheduler::RequestId{static_cast<uint64_t>(i)},
          std::move(prompt),
          sampling::SamplingParams{.max_tokens = kWarmups + kSteps + 100}));
      scheduler_.add_request(*requests_.back());
    }
  }

  /// Runs steps until all requests decode.
  void prefill() {
    for (;;) {
      const scheduler::SchedulerOutput& output = scheduler_.schedule();
      const bool is_done = !output.any_prefill && output.num_reqs() == num_requests_;
      (void)scheduler_.update_from_output(
          std::span(sampled_).first(static_cast<size_t>(output.num_sampling_requests)));
      if (is_done) return;
    }
  }

  void step(std::array<Part, 4>& parts, Part& all) {
    std::array<double, 5> times{};
    times[0] = thread_microseconds();
    const scheduler::SchedulerOutput& output = scheduler_.schedule();
    times[1] = thread_microseconds();
    const cudagraph::Decision decision = dispatch(output);
    times[2] = thread_microseconds();
    batch_.stage(output.scheduled,
                 {.num_tokens = decision.descriptor.num_tokens,
                  .num_reqs = num_requests_,
                  .num_logits_rows = num_requests_},
                 execution_.stream());
    times[3] = thread_microseconds();
    (void)scheduler_.update_from_output(sampled_);
    times[4] = thread_microseconds();
    if (decision.mode != cudagraph::CudagraphRuntimeMode::FULL) std::abort();
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].microseconds.push_back(times[i + 1] - times[i]);
    }
    all.microseconds.push_back(times[4] - times[0]);
  }

 private:
  cudagraph::Decision dispatch(const scheduler::SchedulerOutput& output) {
    return dispatcher_.dispatch(
        {.num_tokens = output.total_num_scheduled_tokens,
         .num_reqs = output.num_reqs(),
         .uniform = cudagraph::is_uniform_decode(output.max_query_len,
                                                 1,
                                                 output.total_num_scheduled_tokens,
                                                 output.num_reqs(),
                                                 output.any_prefill),
         .num_logits = output.num_logits});
  }

  int num_requests_;
  int max_blocks_;
  std::unique_ptr<device::Device> device_;
  runner::Execution execution_;
  runner::InputBatch batch_;
  cudagraph::CudagraphDispatcher dispatcher_;
  kv_cache::KvCacheManager cache_;
  scheduler::Scheduler scheduler_;
  std::vector<std::unique_ptr<scheduler::Request>> requests_;
  std::vector<sampling::SampledToken> sampled_;
};

}  // namespace

int main(int argc, char** argv) {
  const int num_requests = argc > 1 ? number(argv[1]) : 256;
  const int max_model_len = argc > 2 ? number(argv[2]) : 2048;
  if (num_requests < 1 || num_requests > 2048 || max_model_len < 2048) {
    fmt::print(stderr, "step_benchmark [num_requests, 1..2048] [max_model_len, 2048 or more]\n");
    return 2;
  }
  Server server(num_requests, max_model_len);
  server.prefill();
  std::array<Part, 4> parts = {
      {{"schedule"}, {"rows and dispatch"}, {"stage"}, {"update, publish"}}};
  Part all{"all"};
  for (int i = 0; i < kWarmups; ++i) server.step(parts, all);
  for (Part& part : parts) part.microseconds.clear();
  all.microseconds.clear();
  for (int i = 0; i < kSteps; ++i) server.step(parts, all);
  fmt::print(
      "{} requests decode, max_model_len {}; microseconds of CPU time per step\n"
      "{:<28} {:>8} {:>8} {:>8} {:>8}\n",
      num_requests,
      max_model_len,
      "",
      "min",
      "median",
      "p90",
      "p99");
  for (Part& part : parts) print(part);
  print(all);
  return 0;
}
