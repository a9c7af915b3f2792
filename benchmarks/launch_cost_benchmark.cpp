// Measures what the host does to launch one batch of a model with 28 layers, in five ways: by the
// model's own code, by one flat program, by pieces through their wrappers without graphs, by
// PIECEWISE graphs and by one FULL graph. The pull request that introduced full graphs beside
// piecewise compilation gives 56 ms for a flat program in Python, and 28 ms for pieces.
//
//   launch_cost_benchmark [rounds] [--device cpu|cuda]
//
// cpu: kernels are launched and never run, so the time is the host's work alone, without a driver.
// cuda: the time until the last launch returned; the driver's time is part of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/cuda_model.h"
#include "benchmarks/launch_only_device.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"

namespace {

using namespace reprise;
using cudagraph::CudagraphMode;

// The layers of Qwen2.5-7B. Widths are small, because they do not matter: nothing is computed.
constexpr const char* kSevenBillionLayers = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 128,
  "intermediate_size": 256, "num_hidden_layers": 28, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 4096,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr int32_t kLargestCaptured = 512;
constexpr int32_t kMaxTokens = 1024;
constexpr int32_t kBlockSize = 16;

struct Way {
  const char* name;
  config::CompilationMode level;
  CudagraphMode mode;
  bool is_split;  // false: splitting_ops = []
  int32_t num_tokens;
};
// The batch of the first three is one token larger than the largest graph. That of the last two
// has a graph.
constexpr std::array kWays = {
    Way{"own code, level 0",
        config::CompilationMode::NONE,
        CudagraphMode::NONE,
        true,
        kLargestCaptured + 1},
    Way{"one flat program",
        config::CompilationMode::VLLM_COMPILE,
        CudagraphMode::NONE,
        false,
        kLargestCaptured + 1},
    Way{"pieces through wrappers",
        config::CompilationMode::VLLM_COMPILE,
        CudagraphMode::PIECEWISE,
        true,
        kLargestCaptured + 1},
    Way{"PIECEWISE graphs",
        config::CompilationMode::VLLM_COMPILE,
        CudagraphMode::PIECEWISE,
        true,
        kLargestCaptured},
    Way{"a FULL graph",
        config::CompilationMode::VLLM_COMPILE,
        CudagraphMode::FULL,
        true,
        kLargestCaptured},
};

double thread_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// The device with its executors and code generator.
struct Machine {
  benchmark::Gpu gpu;  // empty on a CPU
  std::unique_ptr<device::Device> launch_only;
  runner::Execution::MakeExecutor make_executor;
  std::optional<compile::CodeGenerator> generator;

  [[nodiscard]] device::Device& device() { return launch_only ? *launch_only : *gpu.device; }
};

std::unique_ptr<Machine> open_machine(bool is_gpu) {
  auto machine = std::make_unique<Machine>();
  if (is_gpu) {
    machine->gpu = benchmark::open_gpu();
    machine->make_executor = benchmark::executor_of(machine->gpu);
    machine->generator =
        compile::cuda_code_generator(machine->gpu.code.architecture, *machine->gpu.code.loader);
    return machine;
  }
  machine->launch_only = std::make_unique<benchmark::LaunchOnlyDevice>(
      device::create_cpu_device({.num_threads = 1, .pin_threads = false}));
  const kernels::Isa isa = kernels::best_isa(device::detect_cpu_features());
  machine->make_executor = [isa](device::Stream& stream, device::MemoryPool& pool) {
    return std::make_unique<kernels::CpuExecutor>(stream, pool, kernels::kernel_table(isa));
  };
  machine->generator = compile::cpu_code_generator(isa);
  return machine;
}

/// A model that runs its batch in one of the ways of kWays.
class Engine {
 public:
  Engine(Machine& machine, const weights::ModelConfig& config, const Way& way)
      : way_(way),
        execution_(machine.device(), machine.make_executor),
        weights_(config),
        parameters_(
            weights_, DType::bf16, machine.device(), execution_.stream(), execution_.executor()),
        model_(models::create_model(config, kMaxTokens, parameters_)),
        tokens_(static_cast<size_t>(way.num_tokens), 7) {
    parameters_.finish_loading();
    for (int32_t i = 1; i <= kMaxTokens / kBlockSize; ++i) {
      blocks_.push_back(kv_cache::BlockId{i});
    }
    config::ResolutionInputs inputs;
    inputs.compilation.cudagraph_mode = way.mode;
    inputs.compilation.mode = way.level;
    inputs.compilation.max_cudagraph_capture_size = kLargestCaptured;
    if (!way.is_split) inputs.compilation.splitting_ops.emplace();
    inputs.attention = {{"FLASH_ATTN", cudagraph::AttentionCGSupport::ALWAYS}};
    inputs.max_num_seqs = 1;
    inputs.max_num_batched_tokens = kMaxTokens;
    const config::ResolvedConfig resolved = config::resolve(inputs);
    create_runner(config, config::dispatcher_options(inputs, resolved));
    if (way.level != config::CompilationMode::NONE) compile(machine, inputs, resolved);
    for (const auto& record : runner_->capture({}).records) {
      if (!record.failure.empty()) throw std::runtime_error("not captured: " + record.failure);
    }
  }

  /// Launches the batch. Returns the CPU time of this thread in microseconds.
  double step() {
    const scheduler::StepEntry request{
        .token_ids = tokens_, .num_computed_tokens = 0, .block_ids = blocks_, .samples = true};
    const double begin = thread_microseconds();
    (void)runner_->execute(
        {&request, 1},
        {.num_tokens = way_.num_tokens, .num_reqs = 1, .uniform = false, .num_logits = 1});
    const double end = thread_microseconds();
    execution_.stream().synchronize();
    return end - begin;
  }
  [[nodiscard]] const Way& way() const { return way_; }
  [[nodiscard]] runner::StepLaunches launches() const { return runner_->last_launches(); }

 private:
  void create_runner(const weights::ModelConfig& config,
                     const cudagraph::DispatcherOptions& dispatcher) {
    runner_ = std::make_unique<runner::ModelRunner>(
        execution_,
        *model_,
        parameters_,
        runner::ModelRunnerOptions{.limits = {.max_num_tokens = kMaxTokens,
                                              .max_num_reqs = 1,
                                              .max_num_prompt_logits = 0,
                                              .max_blocks_per_req = kMaxTokens / kBlockSize,
                                              .block_size = kBlockSize},
                                   .kv_cache = {.num_layers = config.num_hidden_layers,
                                                .num_blocks = kMaxTokens / kBlockSize + 1,
                                                .num_kv_heads = config.num_key_value_heads,
                                                .block_size = kBlockSize,
                                                .head_dim = config.head_dim,
                                                .dtype = DType::bf16},
                                   .dispatcher = dispatcher});
  }
  void compile(Machine& machine,
               const config::ResolutionInputs& inputs,
               const config::ResolvedConfig& resolved) {
    compile::ModelCompiler compiler({.asked = inputs.compilation,
                                     .resolved = resolved,
                                     .isa = execution_.executor().kernels().isa,
                                     .generator = machine.generator,
                                     .cache_root = {},
                                     .disable_cache = true});
    api::compile_runner(compiler, *runner_, runner::ForwardKind::base);
    const std::string& refused = compiler.report().refused;
    if (!refused.empty()) throw std::runtime_error("not compiled: " + refused);
  }

  Way way_;
  runner::Execution execution_;
  benchmark::ShapesOnly weights_;
  models::Parameters parameters_;
  std::unique_ptr<models::CausalLM> model_;
  std::vector<kv_cache::BlockId> blocks_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<runner::ModelRunner> runner_;
};

struct Times {
  std::vector<double> values;

  [[nodiscard]] double at(double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  }
};

/// Whether each way made the launches that it is meant to measure.
bool are_as_planned(const std::vector<std::unique_ptr<Engine>>& engines) {
  const auto of = [&](size_t way) { return engines[way]->launches(); };
  const runner::StepLaunches own = of(0);
  const runner::StepLaunches flat = of(1);
  const runner::StepLaunches pieces = of(2);
  const runner::StepLaunches piecewise = of(3);
  const runner::StepLaunches full = of(4);
  const bool are_kernels = own.graphs == 0 && flat.graphs == 0 && pieces.graphs == 0;
  const bool are_graphs =
      piecewise.graphs == 29 && piecewise.kernels == 28 && full.graphs == 1 && full.kernels == 0;
  return are_kernels && are_graphs && flat == pieces && own.kernels > flat.kernels;
}

int run(int rounds, bool is_gpu) {
  const std::unique_ptr<Machine> machine = open_machine(is_gpu);
  const auto config = weights::parse_model_config(kSevenBillionLayers, "config").config;
  std::vector<std::unique_ptr<Engine>> engines;
  for (const Way& way : kWays) {
    engines.push_back(std::make_unique<Engine>(*machine, config, way));
  }
  std::vector<Times> times(engines.size());
  constexpr int kWarmups = 3;
  for (int round = -kWarmups; round < rounds; ++round) {
    for (size_t i = 0; i < engines.size(); ++i) {
      const double microseconds = engines[i]->step();
      if (round >= 0) times[i].values.push_back(microseconds);
    }
  }
  fmt::print("{}: {} rounds in turns; microseconds of the launching thread per batch\n",
             machine->device().description(),
             rounds);
  fmt::print("{:<24} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>9}\n",
             "way",
             "tokens",
             "graphs",
             "kernels",
             "median",
             "quartile",
             "quartile",
             "by flat");
  for (size_t i = 0; i < engines.size(); ++i) {
    const runner::StepLaunches launches = engines[i]->launches();
    fmt::print("{:<24} {:>7} {:>7} {:>8} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.2f}\n",
               engines[i]->way().name,
               engines[i]->way().num_tokens,
               launches.graphs,
               launches.kernels,
               times[i].at(0.5),
               times[i].at(0.25),
               times[i].at(0.75),
               times[i].at(0.5) / times[1].at(0.5));
  }
  if (are_as_planned(engines)) return 0;
  fmt::print(stderr, "the launches are not those that the ways are there to measure\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 300;
  bool is_gpu = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (text == "--device" && i + 1 < argc) {
      const std::string_view device = argv[++i];
      is_gpu = device == "cuda";
      if (is_gpu || device == "cpu") continue;
    } else if (std::from_chars(text.data(), text.data() + text.size(), rounds).ptr ==
                   text.data() + text.size() &&
               rounds > 0) {
      continue;
    }
    fmt::print(stderr, "usage: launch_cost_benchmark [rounds] [--device cpu|cuda]\n");
    return 2;
  }
  try {
    return run(rounds, is_gpu);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
