// Measures decode steps whose requests share a prefix, with cascade attention where the rule
// chooses it and without, in one process: blocks of steps of the two engines in turns. Figures are
// wall times; a ratio compares two neighbouring blocks, and its median has its smallest and largest
// value.
//
//   cascade_benchmark MODEL_WITH_TOKENIZER [rounds] [workers] [part of a model's name]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/json.h"
#include "reprise/engine/engine_core.h"
#include "reprise/runner/model_runner.h"

namespace {

using reprise::api::EngineArgs;
using reprise::api::LLM;
using reprise::engine::EngineCore;
using Tokens = std::vector<int32_t>;

constexpr int kStepsPerBlock = 4;
constexpr int32_t kOwnTokens = 16;
constexpr int32_t kVocabSize = 512;

struct Shape {
  const char* name;
  const char* overrides;
};
constexpr Shape kShapes[] = {
    {"14 heads on 2 of 64, hidden 896",
     R"({"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
         "num_key_value_heads": 2, "head_dim": 64})"},
    {"15 heads on 5 of 64, hidden 960",
     R"({"hidden_size": 960, "intermediate_size": 2560, "num_attention_heads": 15,
         "num_key_value_heads": 5, "head_dim": 64})"},
    {"12 heads on 12 of 64, hidden 768",
     R"({"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12,
         "num_key_value_heads": 12, "head_dim": 64})"},
    {"32 heads on 8 of 128, hidden 1024",
     R"({"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128})"},
    {"32 heads on 2 of 128, hidden 1024",
     R"({"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 32,
         "num_key_value_heads": 2, "head_dim": 128})"},
};
constexpr int32_t kPrefixes[] = {256, 512, 1024, 4096, 8192};
constexpr int kRequests[] = {8, 16, 64};

EngineArgs arguments(const std::string& model, const Shape& shape, int workers, bool cascade) {
  EngineArgs args;
  args.model = model;
  args.load_format = reprise::api::LoadFormat::dummy;
  args.hf_overrides = reprise::parse_json(shape.overrides, "overrides");
  args.hf_overrides["num_hidden_layers"] = 4;
  args.hf_overrides["max_position_embeddings"] = 16384;
  args.max_model_len = 8192 + 512;
  args.max_num_seqs = 64;
  args.max_num_batched_tokens = 512;
  args.kv_cache_memory_bytes = size_t{1} << 30;
  args.num_threads = workers;
  args.enable_prefix_caching = true;
  args.disable_compile_cache = true;
  args.disable_cascade_attn = !cascade;
  return args;
}

Tokens tokens_from(uint32_t seed, int32_t count) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(static_cast<int32_t>(100 + (seed >> 8U) % (kVocabSize - 100)));
  }
  return tokens;
}

/// An engine in which every request decodes.
class Decoding {
 public:
  Decoding(LLM& llm, int32_t prefix_len, int num_requests, int num_steps)
      : core_(*llm.loaded().core), runner_(*llm.loaded().runner) {
    Tokens prompt = tokens_from(static_cast<uint32_t>(prefix_len), prefix_len);
    finish(prompt);  // so that the others find the prefix in the cache
    const size_t prefix_size = prompt.size();
    for (int i = 0; i < num_requests; ++i) {
      prompt.resize(prefix_size);
      const Tokens own = tokens_from(static_cast<uint32_t>(1000 + i), kOwnTokens);
      prompt.insert(prompt.end(), own.begin(), own.end());
      ids_.push_back(core_.add_request(
          prompt, {.temperature = 0, .max_tokens = num_steps + 64, .ignore_eos = true}));
    }
    // All requests decode as soon as one step gives each of them a token.
    while (core_.step().size() < static_cast<size_t>(num_requests)) {
    }
  }
  ~Decoding() {
    for (const reprise::scheduler::RequestId id : ids_) (void)core_.abort_request(id);
    while (core_.has_unfinished_requests()) (void)core_.step();
  }
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  /// Milliseconds per step.
  double run_block(std::vector<int32_t>& tokens) {
    const auto begin = std::chrono::steady_clock::now();
    for (int step = 0; step < kStepsPerBlock; ++step) {
      for (const auto& update : core_.step()) {
        if (update.new_token_id) tokens.push_back(*update.new_token_id);
      }
    }
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    return time.count() / kStepsPerBlock;
  }
  [[nodiscard]] uint64_t num_cascade_steps() const { return runner_.num_cascade_steps(); }

 private:
  void finish(const Tokens& prompt) {
    (void)core_.add_request(prompt, {.temperature = 0, .max_tokens = 1, .ignore_eos = true});
    while (core_.has_unfinished_requests()) (void)core_.step();
  }

  EngineCore& core_;
  reprise::runner::ModelRunner& runner_;
  std::vector<reprise::scheduler::RequestId> ids_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void report(const Shape& shape, LLM& cascade, LLM& plain, int32_t prefix, int reqs, int rounds) {
  const int num_steps = (rounds + 1) * kStepsPerBlock;
  Decoding with(cascade, prefix, reqs, num_steps);
  Decoding without(plain, prefix, reqs, num_steps);
  std::vector<int32_t> tokens[2];
  const uint64_t num_before = with.num_cascade_steps();
  std::vector<double> with_ms;
  std::vector<double> without_ms;
  std::vector<double> ratios;
  for (int round = -1; round < rounds; ++round) {
    const bool is_first = round % 2 == 0;
    const double early = is_first ? with.run_block(tokens[0]) : without.run_block(tokens[1]);
    const double late = is_first ? without.run_block(tokens[1]) : with.run_block(tokens[0]);
    if (round < 0) continue;
    with_ms.push_back(is_first ? early : late);
    without_ms.push_back(is_first ? late : early);
    ratios.push_back(without_ms.back() / with_ms.back());
  }
  const bool is_chosen = with.num_cascade_steps() > num_before;
  fmt::print("| {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} ({:.2f} to {:.2f}) | {} |\n",
             shape.name,
             prefix,
             reqs,
             is_chosen ? "yes" : "no",
             median(without_ms),
             median(with_ms),
             median(ratios),
             *std::min_element(ratios.begin(), ratios.end()),
             *std::max_element(ratios.begin(), ratios.end()),
             tokens[0] == tokens[1] ? "equal" : "DIFFERENT");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: cascade_benchmark MODEL_WITH_TOKENIZER [rounds] [workers] [name]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 7;
  const int workers = argc > 3 ? std::max(1, std::atoi(argv[3])) : 2;
  const std::string part = argc > 4 ? argv[4] : "";
  fmt::print(
      "| model (4 layers) | prefix | requests | rule chooses cascade | plain, ms per step | "
      "default, ms per step | ratio (range) | tokens |\n|---|---|---|---|---|---|---|---|\n");
  for (const Shape& shape : kShapes) {
    if (std::string(shape.name).find(part) == std::string::npos) continue;
    LLM cascade(arguments(argv[1], shape, workers, true));
    LLM plain(arguments(argv[1], shape, workers, false));
    for (const int32_t prefix : kPrefixes) {
      for (const int reqs : kRequests) report(shape, cascade, plain, prefix, reqs, rounds);
    }
  }
  return 0;
}
