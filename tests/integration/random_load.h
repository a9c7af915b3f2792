#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "reprise/engine/step_loop.h"
#include "reprise/speculative/drafter.h"
#include "reprise/structured_output/token_constraint.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/source_dir.h"

/// Random requests with every option, and an engine that answers them. Two engines that differ only
/// in how they compute must give equal answers.
namespace reprise::testing {

using Tokens = std::vector<int32_t>;

inline std::filesystem::path bundled_model() {
  return std::filesystem::path(source_dir()) / "models/reprise-tiny";
}

/// Each token must be of another class than the previous token, and some tokens complete the
/// answer. The class expects one call per token, in order.
class ClassByClass final : public structured_output::TokenConstraint {
 public:
  /// `time`: the least time that a mask takes.
  ClassByClass(int32_t vocab_size, int length, std::chrono::microseconds time = {})
      : vocab_size_(vocab_size), length_(length), time_(time) {}

  std::span<const uint32_t> allowed_tokens() override {
    if (time_.count() > 0) std::this_thread::sleep_for(time_);
    mask_.assign(static_cast<size_t>(vocab_size_ + 31) / 32, 0);
    if (is_complete()) return mask_;
    for (int32_t id = num_accepted_ % kNumClasses; id < vocab_size_; id += kNumClasses) {
      mask_[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
    }
    return mask_;
  }
  bool accept(int32_t token_id) override {
    if (token_id % kNumClasses != num_accepted_ % kNumClasses) return false;
    ++num_accepted_;
    return true;
  }
  bool is_complete() override { return num_accepted_ >= length_; }

  static constexpr int32_t kNumClasses = 5;

 private:
  int32_t vocab_size_;
  int length_;
  std::chrono::microseconds time_;
  int32_t num_accepted_ = 0;
  std::vector<uint32_t> mask_;
};

struct Spec {
  Tokens prompt;
  sampling::SamplingParams params;
  std::string cache_salt;
  int constraint_length = 0;  // 0: none
  std::chrono::microseconds constraint_time{0};
  int abort_after = 0;  // tokens until the abort; 0: never
};

/// All output of one request.
struct Answer {
  std::string text;
  Tokens token_ids;
  std::vector<sampling::PositionLogprobs> logprobs;
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  std::string finish_reason;
  scheduler::StopReason stop_reason;
  std::string error;

  void add(const engine::OutputDelta& delta) {
    text += delta.text;
    token_ids.insert(token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (!delta.prompt_logprobs.empty()) prompt_logprobs = delta.prompt_logprobs;
    finish_reason = delta.finish_reason;
    stop_reason = delta.stop_reason;
    error = delta.error;
  }
  friend bool operator==(const Answer&, const Answer&) = default;
};
inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << fmt::format(
             "[{}] {} {}", fmt::join(answer.token_ids, " "), answer.finish_reason, answer.error);
}

class Load {
 public:
  Load(uint32_t seed, int32_t vocab_size) : random_(seed), vocab_size_(vocab_size) {}

  Spec next(int64_t index) {
    Spec spec{.prompt = prompt()};
    sampling::SamplingParams& params = spec.params;
    params.max_tokens = 1 + below(40);
    params.temperature = below(3) == 0 ? 0.0F : 1.0F;
    params.seed = index;  // the engine's seed would depend on the order of arrival
    params.ignore_eos = below(2) == 0;
    if (below(3) == 0) params.min_tokens = below(*params.max_tokens + 1);
    if (below(3) == 0) params.top_k = 1 + below(50);
    if (below(3) == 0) params.top_p = 0.8F;
    if (below(4) == 0) params.repetition_penalty = 1.3F;
    if (below(4) == 0) params.presence_penalty = 0.7F;
    if (below(4) == 0) params.frequency_penalty = -0.7F;
    if (below(4) == 0) params.bad_words_token_ids = {{token(), token()}, {token()}};
    // These tokens are common enough to stop many answers early.
    for (int i = below(3) == 0 ? 40 : 0; i > 0; --i) params.stop_token_ids.push_back(token());
    if (below(3) == 0) params.stop = {"e", "th"};
    if (below(3) == 0) params.logprobs = below(4);
    if (below(5) == 0) params.prompt_logprobs = 2;
    if (below(6) == 0) spec.cache_salt = "salt";
    if (below(5) == 0) spec.constraint_length = 1 + below(12);
    if (below(6) == 0) spec.abort_after = 1 + below(*params.max_tokens);
    return spec;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  int32_t token() { return below(vocab_size_); }

  /// One of a few beginnings that requests share, with an ending of its own.
  Tokens prompt() {
    Tokens tokens;
    const int32_t stem = below(4);
    for (int i = below(80); i > 0; --i)
      tokens.push_back(100 + (stem * 31 + static_cast<int>(tokens.size()) * 7) % 300);
    for (int i = 1 + below(20); i > 0; --i) tokens.push_back(token());
    return tokens;
  }

  std::mt19937 random_;
  int32_t vocab_size_;
};

struct MachineOptions {
  cudagraph::CudagraphMode mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE;
  int64_t num_blocks = 24;  // few, so that requests preempt each other
  int32_t num_speculative_tokens = 0;
  config::CompilationMode level = config::CompilationMode::NONE;
  const attention::BackendInfo* attention = nullptr;  // default: the backend that "auto" chooses
  std::string config = {};  // of a model with random weights; empty: the bundled model
  int32_t num_state_snapshots = 0;
  models::AuxiliaryStates auxiliary = {};  // the hidden states that a draft head reads
  DType dtype = DType::bf16;
  cudagraph::VerifyGraphs verify_graphs = cudagraph::VerifyGraphs::capture;
  double shadow_rate = 0;  // share of replayed steps that also run without their graph
};

/// A whole engine with the bundled model, for several cores, one after the other.
class Machine {
 public:
  static constexpr int32_t kMaxNumTokens = 48;
  static constexpr int32_t kMaxNumReqs = 6;

  explicit Machine(const MachineOptions& options)
      : num_speculative_tokens_(options.num_speculative_tokens),
        num_state_snapshots_(options.num_state_snapshots),
        tiny_({.mode = options.mode,
               .level = options.level,
               .max_num_tokens = kMaxNumTokens,
               .max_num_reqs = kMaxNumReqs,
               .num_blocks = options.num_blocks,
               .num_speculative_tokens = options.num_speculative_tokens,
               .dtype = options.dtype,
               .attention = options.attention,
               .verify_graphs = options.verify_graphs,
               .config = options.config,
               .model = options.config.empty() ? bundled_model() : std::filesystem::path(),
               .num_state_snapshots = options.num_state_snapshots,
               .auxiliary = options.auxiliary,
               .shadow = {.rate = options.shadow_rate}}),
        tokenizer_(tokenizer::Tokenizer::load(bundled_model())) {
    (void)tiny_.runner().capture({});
  }

  [[nodiscard]] int32_t vocab_size() const {
    return static_cast<int32_t>(tiny_.config().vocab_size);
  }

  [[nodiscard]] runner::ModelRunner& runner() { return tiny_.runner(); }
  [[nodiscard]] TinyEngine& engine() { return tiny_; }

  /// The options of a core whose steps wait for all constraints. A test changes what it needs.
  [[nodiscard]] engine::EngineCoreOptions core_options() const {
    return {.scheduler = {.max_num_seqs = kMaxNumReqs,
                          .max_num_batched_tokens = kMaxNumTokens,
                          .max_model_len = 160,
                          // A request may start as soon as its first chunk fits.
                          .scheduler_reserve_full_isl = false,
                          .max_prompt_logits = 16,
                          .constraint_time_per_step = std::chrono::hours(1),
                          .eos_token_ids = {1, 2},
                          .vocab_size = vocab_size()},
            .num_state_snapshots = num_state_snapshots_};
  }
  /// The same with draft tokens.
  [[nodiscard]] engine::EngineCoreOptions core_options(speculative::Drafter& drafter) const {
    engine::EngineCoreOptions options = core_options();
    options.drafter = &drafter;
    options.scheduler.decode_query_len = 1 + num_speculative_tokens_;
    options.scheduler.fewer_draft_widths = tiny_.resolved().fewer_draft_widths();
    options.scheduler.pad_drafts = cudagraph::separate_routine(tiny_.resolved().mode);
    return options;
  }
  [[nodiscard]] std::unique_ptr<engine::EngineCore> make_core(
      const engine::EngineCoreOptions& options) {
    return std::make_unique<engine::EngineCore>(tiny_.runner(), options);
  }

  /// Submits ten requests at once, and each further request when one ends.
  [[nodiscard]] std::vector<Answer> answer(engine::EngineCore& core,
                                           const std::vector<Spec>& specs) {
    std::vector<Answer> answers(specs.size());
    engine::StepLoop loop(core, tokenizer_);
    std::map<scheduler::RequestId, size_t> live;
    std::vector<scheduler::RequestId> to_abort;
    const auto take = [&](engine::OutputDelta&& delta) {
      const auto found = live.find(delta.id);
      Answer& answer = answers[found->second];
      answer.add(delta);
      if (delta.finished) {
        live.erase(found);
      } else if (std::cmp_equal(answer.token_ids.size(), specs[found->second].abort_after)) {
        to_abort.push_back(delta.id);
      }
    };
    for (size_t next = 0; next < specs.size() || core.has_unfinished_requests();) {
      for (; next < specs.size() && live.size() < 10; ++next)
        live.emplace(add(core, loop, specs[next]), next);
      loop.step(take);
      for (const scheduler::RequestId id : std::exchange(to_abort, {})) {
        auto last = loop.abort_request(id);
        EXPECT_TRUE(last && last->finished);
        EXPECT_FALSE(loop.abort_request(id)) << "aborted twice";
        if (last) take(std::move(*last));
      }
    }
    EXPECT_TRUE(live.empty());
    const kv_cache::KvCacheManager& cache = core.kv_cache_manager();
    EXPECT_EQ(cache.num_free_blocks(), cache.num_blocks() - 1) << "leaked blocks";
    EXPECT_EQ(cache.find_broken_invariant({}), "");
    return answers;
  }

 private:
  scheduler::RequestId add(engine::EngineCore& core,
                           engine::StepLoop& loop,
                           const Spec& spec) const {
    scheduler::RequestOptions options{.cache_salt = spec.cache_salt};
    if (spec.constraint_length > 0) {
      options.constraint = std::make_shared<ClassByClass>(
          vocab_size(), spec.constraint_length, spec.constraint_time);
    }
    const scheduler::RequestId id = core.new_request_id();
    loop.add_request(id, spec.prompt, spec.params, std::move(options));
    return id;
  }

  int32_t num_speculative_tokens_;
  int32_t num_state_snapshots_;
  TinyEngine tiny_;
  tokenizer::Tokenizer tokenizer_;
};

/// The answers of a core without draft tokens.
inline std::vector<Answer> plain_answers(Machine& machine, const std::vector<Spec>& specs) {
  const auto core = machine.make_core(machine.core_options());
  return machine.answer(*core, specs);
}

inline void expect_equal(const std::vector<Answer>& answers, const std::vector<Answer>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t i = 0; i < answers.size(); ++i) ASSERT_EQ(answers[i], expected[i]) << "request " << i;
}

}  // namespace reprise::testing
