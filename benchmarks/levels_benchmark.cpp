// Measures the cost and the gain of compiling: starts in fresh processes, and decode steps of all
// levels in turns. Prints text for people; every figure is a median with its smallest and largest
// value.
//
//   levels_benchmark MODEL_WITH_TOKENIZER [rounds]
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/runner/model_runner.h"

namespace {

namespace fs = std::filesystem;
using reprise::api::EngineArgs;
using reprise::api::LLM;

// The shape of Qwen2.5-0.5B. Random weights do not change the times.
constexpr const char* kHalfBillion = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
  "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";

struct Spread {
  std::vector<double> values;

  void add(double value) { values.push_back(value); }
  [[nodiscard]] std::string to_string() {
    std::sort(values.begin(), values.end());
    return fmt::format(
        "{:9.3f} ({:.3f}..{:.3f})", values[values.size() / 2], values.front(), values.back());
  }
};

EngineArgs half_billion(const fs::path& folder, const fs::path& tokenizer, int level) {
  EngineArgs args;
  args.model = folder;
  args.tokenizer = tokenizer;
  args.load_format = reprise::api::LoadFormat::dummy;
  args.max_model_len = 512;
  args.max_num_seqs = 4;
  args.max_num_batched_tokens = 64;
  args.compile_cache_root = folder / "cache";
  args.compilation_config = {{"mode", level}, {"cudagraph_capture_sizes", {1}}};
  return args;
}

// Seconds of each stage of one start. Each start has its own process, because a process loads LLVM
// once.
std::vector<double> measured_start(const EngineArgs& args) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    LLM llm(args);
    const auto& seconds = llm.startup_report().compilation.seconds;
    const double stages[] = {seconds.trace,
                             seconds.split,
                             seconds.passes,
                             seconds.codegen,
                             seconds.plan,
                             seconds.cache_save,
                             seconds.cache_load,
                             llm.startup_report().compile_seconds};
    const auto written = write(ends[1], stages, sizeof stages);
    _exit(written == static_cast<ssize_t>(sizeof stages) ? 0 : 1);
  }
  close(ends[1]);
  std::vector<double> stages(8);
  const auto got = read(ends[0], stages.data(), stages.size() * sizeof(double));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (got != static_cast<ssize_t>(stages.size() * sizeof(double))) std::abort();
  return stages;
}

void report_starts(const fs::path& folder, const fs::path& tokenizer, int rounds) {
  constexpr const char* kStages[] = {
      "trace", "split", "passes", "code", "plan", "cache write", "cache read", "all"};
  std::vector<Spread> cold(8);
  std::vector<Spread> warm(8);
  for (int round = 0; round < rounds; ++round) {
    const EngineArgs args = half_billion(folder, tokenizer, 3);
    fs::remove_all(args.compile_cache_root);
    const auto first = measured_start(args);
    const auto second = measured_start(args);
    for (size_t i = 0; i < 8; ++i) {
      cold[i].add(1000 * first[i]);
      warm[i].add(1000 * second[i]);
    }
  }
  fmt::print("compiling 24 layers of 0.5B shape, level 3, {} fresh processes each; ms\n", rounds);
  fmt::print("{:<12} {:>28} {:>28}\n", "stage", "cold", "warm");
  for (size_t i = 0; i < 8; ++i) {
    fmt::print("{:<12} {:>28} {:>28}\n", kStages[i], cold[i].to_string(), warm[i].to_string());
  }
}

struct Variant {
  int level;
  const char* mode;
};
constexpr Variant kVariants[] = {
    {0, "NONE"}, {3, "NONE"}, {0, "FULL_AND_PIECEWISE"}, {3, "FULL_AND_PIECEWISE"}};

void report_decode(const char* what,
                   const std::function<EngineArgs(int level)>& arguments,
                   int output_len,
                   int rounds) {
  std::vector<std::unique_ptr<LLM>> engines;
  for (const Variant& variant : kVariants) {
    EngineArgs args = arguments(variant.level);
    args.compilation_config["cudagraph_mode"] = variant.mode;
    engines.push_back(std::make_unique<LLM>(args));
  }
  const std::vector<std::vector<int32_t>> prompt = {{5, 6, 7, 8, 9, 10, 11, 12}};
  const reprise::sampling::SamplingParams greedy{
      .temperature = 0, .max_tokens = output_len, .ignore_eos = true};
  std::vector<Spread> times(engines.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < engines.size(); ++i) {
      const auto output = engines[i]->generate_token_ids(prompt, greedy);
      if (round >= 0) times[i].add(1000 * output[0].metrics.time_per_output_token());
    }
  }
  fmt::print(
      "\n{}, batch 1, {} tokens, {} interleaved rounds; ms per token\n", what, output_len, rounds);
  for (size_t i = 0; i < engines.size(); ++i) {
    const auto launches = engines[i]->loaded().runner->last_decode_launches();
    fmt::print("level {} {:<20} {:>28}   {} launches per step\n",
               kVariants[i].level,
               kVariants[i].mode,
               times[i].to_string(),
               launches.total());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: levels_benchmark MODEL_WITH_TOKENIZER [rounds]\n");
    return 2;
  }
  const fs::path model = argv[1];
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  std::string folder = (fs::temp_directory_path() / "reprise-levels-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::ofstream(fs::path(folder) / "config.json") << kHalfBillion;
  report_starts(folder, model, rounds);
  report_decode(
      "bundled model",
      [&](int level) {
        EngineArgs args;
        args.model = model;
        args.compile_cache_root = fs::path(folder) / "cache";
        args.max_num_seqs = 8;
        args.max_num_batched_tokens = 64;
        args.compilation_config = {{"mode", level}};
        return args;
      },
      128,
      rounds);
  report_decode(
      "0.5B shape", [&](int level) { return half_billion(folder, model, level); }, 16, rounds);
  fs::remove_all(folder);
  return 0;
}
