// Compares three versions of row groups: generated code, a kernel written by hand with intrinsics,
// and the single ops one after the other. The three run in turn in the same process. It reports
// medians of rounds, for one row in the cache and for many rows from memory.
//
//   codegen_benchmark [--rounds N] [--group NAME]   prints a table, then the same as JSON

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "reprise/compile/codegen/hand_written_kernels.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/program/interpreter.h"
#include "tests/support/compile/codegen_fixture.h"

namespace reprise::compile {
namespace {

using device::CpuKernelFunction;
using kernels::Isa;
using program::Program;
using Clock = std::chrono::steady_clock;

/// Records launches once and replays them without the cost of creating them. This is a lower bound
/// for the cost of replaying a graph of the single ops.
class RecordedLaunches final : public device::Stream {
 public:
  void launch(const device::Launch& launch) override {
    auto& arguments = launches_.emplace_back();
    arguments.kernel = launch.kernel->cpu;
    arguments.num_blocks = launch.num_blocks;
    std::memcpy(arguments.bytes.data(), launch.args.data(), launch.args.size());
  }
  void run() const {
    for (const auto& launch : launches_) launch.kernel(launch.bytes.data(), {0, launch.num_blocks});
  }

  void copy(void*, const void*, size_t) override { std::abort(); }
  void fill(void*, std::byte, size_t) override { std::abort(); }
  void copy_from_host(void*, const void*, size_t) override { std::abort(); }
  void copy_to_host(void*, const void*, size_t) override { std::abort(); }
  void record(device::Event&) override { std::abort(); }
  void wait(const device::Event&) override { std::abort(); }
  void synchronize() override {}
  void begin_capture() override { std::abort(); }
  [[nodiscard]] std::unique_ptr<device::Graph> end_capture() override { return nullptr; }
  void abort_capture() noexcept override {}
  [[nodiscard]] bool is_capturing() const noexcept override { return false; }
  [[nodiscard]] const device::LaunchCounters& counters() const noexcept override {
    return counters_;
  }
  [[nodiscard]] device::Device& device() const noexcept override { std::abort(); }

 private:
  struct Recorded {
    CpuKernelFunction kernel = nullptr;
    uint32_t num_blocks = 0;
    alignas(64) std::array<std::byte, device::kMaxLaunchArgumentBytes> bytes{};
  };
  std::vector<Recorded> launches_;
  device::LaunchCounters counters_;
};

struct Case {
  std::string_view body;
  int64_t hidden = 0;
  int64_t width = 0;  // of make_body()
  int64_t heads = 1;
  int64_t kv_heads = 1;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int64_t hidden : {896, 4096}) {
    for (const std::string_view body :
         {"add_rms_norm", "rms_norm", "silu_and_mul", "embedding_rms_norm", "add_add"}) {
      cases.push_back({body, hidden, hidden});
    }
  }
  cases.push_back({"qk_norm_rope", 896, 32, 14, 2});
  cases.push_back({"qk_norm_rope", 4096, 64, 32, 8});
  return cases;
}

/// The CPU time of this thread, which does not include other work on the machine.
double cpu_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Result {
  double generated_us = 0;
  double hand_us = 0;
  double unfused_us = 0;
};

/// Runs the three versions in turn, `rounds` times.
Result measure(int rounds, int repeats, const std::array<std::function<void()>, 3>& contestants) {
  std::array<std::vector<double>, 3> times;
  for (int round = -1; round < rounds; ++round) {  // round -1 is the warm-up
    for (size_t i = 0; i < contestants.size(); ++i) {
      const auto begin = Clock::now();
      for (int repeat = 0; repeat < repeats; ++repeat) contestants[i]();
      const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
      if (round >= 0) times[i].push_back(time.count() / repeats);
    }
  }
  return {median(times[0]), median(times[1]), median(times[2])};
}

int64_t bytes_of(std::span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.type().bytes());
  return bytes;
}

class Benchmark {
 public:
  Benchmark(CompilerInterface& compiler, Isa isa, int rounds)
      : compiler_(compiler), isa_(isa), rounds_(rounds) {}

  void run(const Case& c) {
    const Program& body = bodies_.emplace_back(make_body(
        c.body,
        {.dtype = DType::bf16, .width = c.width, .heads = c.heads, .kv_heads = c.kv_heads}));
    const RowGroupSource source = {.symbol = "kernel", .body = &body};
    std::vector<double> compile_ms;
    std::vector<std::byte> object;
    for (int round = 0; round < 11; ++round) {
      const double begin = cpu_milliseconds();
      object = compiler_.compile({&source, 1});
      compile_ms.push_back(cpu_milliseconds() - begin);
    }
    const auto code = program::ObjectCode::load(object);
    const auto function = code.find<CpuKernelFunction>("kernel");
    const int64_t many = std::max<int64_t>(16384, (int64_t{64} << 20) / c.hidden);
    for (const int64_t rows : {int64_t{1}, many}) run(c, body, function, rows, median(compile_ms));
  }

  /// Compiles all bodies into one object, as for a model.
  void finish() const {
    std::vector<RowGroupSource> sources;
    for (size_t i = 0; i < bodies_.size(); ++i) {
      sources.push_back({fmt::format("kernel_{}", i), &bodies_[i]});
    }
    std::vector<double> times;
    for (int round = 0; round < 5; ++round) {
      const double begin = cpu_milliseconds();
      (void)compiler_.compile(sources);
      times.push_back((cpu_milliseconds() - begin) / static_cast<double>(sources.size()));
    }
    fmt::print("\n{} kernels in one object: {:.2f} ms each\n", sources.size(), median(times));
    fmt::print("\n[{}]\n", json_);
  }

 private:
  void run(const Case& c,
           const Program& body,
           CpuKernelFunction function,
           int64_t rows,
           double compile_ms) {
    GroupBench bench(isa_);
    const auto inputs = bench.make_inputs(body, {.num_rows = rows});
    const auto outputs = bench.make_outputs(body, rows);
    const auto arguments = arguments_of(inputs, outputs, rows, rows);

    RecordedLaunches launches;
    kernels::CpuExecutor recorder(launches, bench.executor().pool(), kernels::kernel_table(isa_));
    program::Interpreter interpreter(body);
    const auto kept = interpreter.run(inputs, {}, recorder);

    const HandWrittenArguments by_hand = {.group = &arguments,
                                          .width = c.heads > 1 ? 2 * c.width : c.width,
                                          .heads = c.heads,
                                          .kv_heads = c.kv_heads};
    const CpuKernelFunction hand = find_hand_written_kernel(c.body);
    const auto elements = static_cast<double>(rows * c.hidden);
    const int repeats = std::max(1, static_cast<int>(2e6 / elements));
    const Result result = measure(rounds_,
                                  repeats,
                                  {[&] { function(&arguments, {0, 1}); },
                                   [&] { hand(&by_hand, {0, 1}); },
                                   [&] { launches.run(); }});
    const double gigabytes = static_cast<double>(bytes_of(outputs) + bytes_of(inputs)) / 1e9;
    fmt::print("{:20} {:5} {:6} {:11.3f} {:11.3f} {:11.3f} {:7.2f} {:7.2f} {:7.1f} {:8.2f}\n",
               c.body,
               c.hidden,
               rows,
               result.generated_us,
               result.hand_us,
               result.unfused_us,
               result.hand_us / result.generated_us,
               result.unfused_us / result.generated_us,
               gigabytes / (result.generated_us * 1e-6),
               compile_ms);
    json_ += fmt::format(
        "{}\n  {{\"group\": \"{}\", \"hidden\": {}, \"rows\": {}, \"generated_us\": {:.4f}, "
        "\"hand_us\": {:.4f}, \"unfused_us\": {:.4f}, \"compile_ms\": {:.3f}, \"rounds\": {}}}",
        json_.empty() ? "" : ",",
        c.body,
        c.hidden,
        rows,
        result.generated_us,
        result.hand_us,
        result.unfused_us,
        compile_ms,
        rounds_);
    std::fflush(stdout);
  }

  CompilerInterface& compiler_;
  Isa isa_;
  int rounds_;
  std::string json_;
  std::deque<Program> bodies_;
};

}  // namespace
}  // namespace reprise::compile

int main(int argc, char** argv) {
  using namespace reprise;
  int rounds = 31;
  std::string_view group;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view value = argv[i + 1];
    if (std::string_view(argv[i]) == "--rounds") {
      std::from_chars(value.data(), value.data() + value.size(), rounds);
    } else {
      group = value;
    }
  }
  const kernels::Isa isa = kernels::best_isa(device::detect_cpu_features());
  const auto compiler = compile::find_compiler(isa);
  if (compiler == nullptr || isa < kernels::Isa::avx512) {
    fmt::print("needs the code generation plug-in and AVX-512\n");
    return 0;
  }
  fmt::print("{}; one thread; median of {} rounds, interleaved\n", kernels::isa_name(isa), rounds);
  fmt::print("{:20} {:>5} {:>6} {:>11} {:>11} {:>11} {:>7} {:>7} {:>7} {:>8}\n",
             "group",
             "H",
             "rows",
             "gen us",
             "hand us",
             "unfused us",
             "hand/g",
             "unf/g",
             "GB/s",
             "comp ms");
  compile::Benchmark benchmark(*compiler, isa, rounds);
  for (const compile::Case& c : compile::all_cases()) {
    if (group.empty() || group == c.body) benchmark.run(c);
  }
  benchmark.finish();
}
