// Measures what draft tokens cost and bring at the shape of Qwen2.5-0.5B, with drafts whose number
// of right tokens is scripted. The oracle that makes them right is the same engine without drafts.
// Prints text for people. Times are CPU times of one worker thread, so other programs disturb them
// little; figures are medians with quartiles.
//
//   draft_cost_benchmark MODEL_WITH_TOKENIZER [rounds]
//   draft_cost_benchmark MODEL_WITH_TOKENIZER head [rounds]    an EAGLE-3 head makes the drafts
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/engine/engine_core.h"
#include "reprise/speculative/drafter.h"

namespace {

namespace fs = std::filesystem;
using reprise::engine::EngineCore;

constexpr const char* kHalfBillion = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
  "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr int kNumDrafts = 4;
constexpr int kAnswerTokens = 64;

/// Proposes kNumDrafts tokens, of which the first num_right are those of the known answer.
class ScriptedDrafter final : public reprise::speculative::TokenDrafter {
 public:
  int propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) override {
    const auto known = std::span(text).subspan(token_ids.size());
    const size_t count = std::min(known.size(), drafts.size());
    for (size_t i = 0; i < count; ++i) drafts[i] = known[i] + (i < num_right ? 0 : 1);
    return static_cast<int>(count);
  }
  std::vector<int32_t> text;  // prompt and answer
  size_t num_right = 0;
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Values {
  std::vector<double> values;

  [[nodiscard]] double at(double share) {
    std::ranges::sort(values);
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  }
  [[nodiscard]] std::string to_string() {
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", at(0.5), at(0.25), at(0.75));
  }
};

/// Generates an answer; returns the CPU time of its decode steps. Adds each step's time to the
/// entry of its tokens per request.
double generate(EngineCore& core,
                const std::vector<int32_t>& prompt,
                std::vector<int32_t>& answer,
                std::map<int, Values>& steps) {
  (void)core.add_request(prompt,
                         {.temperature = 0, .max_tokens = kAnswerTokens, .ignore_eos = true});
  double total = 0;
  bool is_prompt = true;
  while (core.has_unfinished_requests()) {
    const double begin = cpu_seconds();
    const auto updates = core.step();
    const double seconds = cpu_seconds() - begin;
    if (updates.empty()) continue;
    for (const auto& update : updates) {
      if (update.new_token_id) answer.push_back(*update.new_token_id);
    }
    if (!std::exchange(is_prompt, false)) {
      total += seconds;
      steps[core.last_step().facts.query_len].values.push_back(seconds * 1e3);
    }
  }
  return total;
}

void run(const fs::path& tokenizer, int rounds) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("reprise-drafts-{}", ::getpid());
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << kHalfBillion;
  reprise::api::EngineArgs args;
  args.model = folder;
  args.tokenizer = tokenizer;
  args.load_format = reprise::api::LoadFormat::dummy;
  args.max_model_len = 512;
  args.max_num_seqs = 1;
  args.max_num_batched_tokens = 64;
  args.num_threads = 1;
  args.disable_compile_cache = true;
  args.speculative_config = {{"method", "ngram"}, {"num_speculative_tokens", kNumDrafts}};
  const auto engine = reprise::api::load_engine(args);
  ScriptedDrafter drafter;
  reprise::engine::EngineCoreOptions plain{.scheduler = engine->core->scheduler().config(),
                                           .enable_prefix_caching = false};
  plain.scheduler.decode_query_len = 1;
  plain.scheduler.fewer_draft_widths.clear();
  reprise::engine::EngineCoreOptions drafting{.scheduler = engine->core->scheduler().config(),
                                              .enable_prefix_caching = false,
                                              .drafter = &drafter};
  std::map<int, Values> steps;
  std::map<size_t, Values> speed_ups;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<int32_t> prompt = {round + 10, 20, 30, 40, 50, 60, 70, 80};
    std::vector<int32_t> expected;
    for (const size_t num_right : {0, 1, 2, 4}) {
      EngineCore without(*engine->runner, plain);
      expected.clear();
      const double plain_seconds = generate(without, prompt, expected, steps);
      drafter.text = prompt;
      drafter.text.insert(drafter.text.end(), expected.begin(), expected.end());
      drafter.num_right = num_right;
      EngineCore with(*engine->runner, drafting);
      std::vector<int32_t> answer;
      speed_ups[num_right].values.push_back(plain_seconds / generate(with, prompt, answer, steps));
      if (answer != expected) throw std::runtime_error("the tokens differ");
    }
  }
  for (auto& [query_len, times] : steps) {
    fmt::print("step of {} tokens: {} ms of CPU, {} steps\n",
               query_len,
               times.to_string(),
               times.values.size());
  }
  const double ratio = steps[1 + kNumDrafts].at(0.5) / steps[1].at(0.5);
  fmt::print("a step with {} drafts costs {:.2f} steps without\n", kNumDrafts, ratio);
  for (auto& [num_right, speed_up] : speed_ups) {
    fmt::print("{} of {} drafts right: {:.2f}x by the cost of a step; measured {}x\n",
               num_right,
               kNumDrafts,
               static_cast<double>(1 + num_right) / ratio,
               speed_up.to_string());
  }
  fs::remove_all(folder);
}

constexpr const char* kHead = R"({
  "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 1, "num_attention_heads": 14,
  "num_key_value_heads": 2, "vocab_size": 151936, "draft_vocab_size": 32000,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "tie_word_embeddings": false, "hidden_act": "silu"})";

/// The cost of steps whose drafts come from a head with random weights. Such drafts are wrong, so
/// the request soon pauses its drafts; new requests are added until there are enough steps with
/// drafts.
void run_head(const fs::path& tokenizer, int rounds) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("reprise-drafts-{}", ::getpid());
  fs::create_directories(folder / "head");
  std::ofstream(folder / "config.json") << kHalfBillion;
  std::ofstream(folder / "head/config.json") << kHead;
  reprise::api::EngineArgs args;
  args.model = folder;
  args.tokenizer = tokenizer;
  args.load_format = reprise::api::LoadFormat::dummy;
  args.max_model_len = 512;
  args.max_num_seqs = 1;
  args.max_num_batched_tokens = 64;
  args.num_threads = 1;
  args.disable_compile_cache = true;
  args.num_gpu_blocks_override = 64;
  const auto plain = reprise::api::load_engine(args);
  args.speculative_config = {{"method", "eagle3"},
                             {"model", (folder / "head").string()},
                             {"num_speculative_tokens", kNumDrafts}};
  const auto drafting = reprise::api::load_engine(args);
  std::map<int, Values> plain_steps;
  std::map<int, Values> steps;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<int32_t> prompt = {round + 10, 20, 30, 40, 50, 60, 70, 80};
    std::vector<int32_t> expected;
    std::vector<int32_t> answer;
    (void)generate(*plain->core, prompt, expected, plain_steps);
    (void)generate(*drafting->core, prompt, answer, steps);
    if (answer != expected) throw std::runtime_error("the tokens differ");
  }
  const double unit = plain_steps[1].at(0.5);
  fmt::print("without a head: {} ms of CPU, {} steps\n",
             plain_steps[1].to_string(),
             plain_steps[1].values.size());
  for (auto& [query_len, times] : steps) {
    fmt::print("with a head, step of {} tokens: {} ms of CPU, {} steps: {:.2f} steps without\n",
               query_len,
               times.to_string(),
               times.values.size(),
               times.at(0.5) / unit);
  }
  fs::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: draft_cost_benchmark MODEL_WITH_TOKENIZER [rounds]\n");
    return 2;
  }
  try {
    const bool has_head = argc > 2 && std::string_view(argv[2]) == "head";
    const int count = has_head ? 3 : 2;
    const int rounds = argc > count ? std::stoi(argv[count]) : 5;
    has_head ? run_head(argv[1], rounds) : run(argv[1], rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
