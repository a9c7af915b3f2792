#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "reprise/api/async_engine.h"
#include "reprise/api/llm.h"
#include "reprise/api/loading/engine_record.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/replay.h"
#include "reprise/kernels/isa.h"
#include "reprise/replay_log/log_reader.h"
#include "reprise/structured_output/grammar_compiler.h"
#include "tests/integration/random_load.h"
#include "tests/support/lora/adapter_fixture.h"
#include "tests/support/weights/weights_fixture.h"

// Answers of a mixed load are logged, and repeated in other engines, alone and in other batches.
namespace reprise {
namespace {

using api::EngineArgs;
using replay_log::LogContent;
using replay_log::RequestRecord;
using structured_output::OutputSpec;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using weights::TempDirectory;

/// Few blocks and small steps: prompts are cut into chunks, and requests preempt each other.
EngineArgs arguments(const char* mode, int level) {
  EngineArgs args;
  args.model = testing::bundled_model();
  args.max_num_seqs = 6;
  args.max_num_batched_tokens = 48;
  args.max_model_len = 160;
  args.num_gpu_blocks_override = 24;
  args.num_threads = 2;
  args.compilation_config = {{"cudagraph_mode", mode}, {"mode", level}};
  return args;
}

Json drafts(const char* method) {
  Json config = {{"method", method}, {"num_speculative_tokens", 3}};
  if (std::string_view(method) == "draft_model")
    config["model"] = testing::bundled_model().string();
  return config;
}

/// An adapter of the bundled model.
std::filesystem::path write_adapter(const TempDirectory& folder, uint32_t seed) {
  testing::AdapterFiles files(4, 2);
  for (int layer = 0; layer < 6; ++layer) {
    const std::string name = fmt::format("model.layers.{}.", layer);
    files.add_module(name + "self_attn.q_proj", 128, 128, ++seed);
    files.add_module(name + "mlp.down_proj", 128, 384, ++seed);
  }
  return files.write(folder.path() / fmt::format("adapter{}", seed));
}

/// Submits requests of every kind, aborts some, and waits for all.
class MixedLoad {
 public:
  MixedLoad(api::AsyncEngine& engine, std::vector<std::string> adapters)
      : engine_(&engine), adapters_(std::move(adapters)) {}

  void run(int num_requests, uint32_t seed) {
    testing::Load load(seed, 1024);
    for (int i = 0; i < num_requests; ++i) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return num_live_ < 12; });
      ++num_live_;
      lock.unlock();
      submit(load.next(i), i);
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_live_ == 0; });
  }

 private:
  void submit(const testing::Spec& spec, int index) {
    sampling::SamplingParams params = spec.params;
    if (index % 2 == 0) params.seed.reset();  // the engine's
    scheduler::RequestOptions options{.cache_salt = spec.cache_salt};
    if (!adapters_.empty() && index % 3 != 0) {
      const size_t adapter = static_cast<size_t>(index) % adapters_.size();
      options = engine_->with_adapter(adapters_[adapter], std::move(options));
    }
    options.client_id = fmt::format("request-{}", index);
    if (spec.constraint_length > 0) constrain(options, params, index);
    (void)engine_->submit(
        spec.prompt,
        params,
        [this, abort_after = spec.abort_after](engine::OutputDelta&& delta) {
          const bool aborts = abort_after > 0 && delta.num_output_tokens >= abort_after;
          if (aborts && !delta.finished) engine_->abort(delta.id);
          if (!delta.finished) return;
          const std::lock_guard lock(mutex_);
          --num_live_;
          changed_.notify_one();
        },
        std::move(options));
  }

  void constrain(scheduler::RequestOptions& options, sampling::SamplingParams& params, int index) {
    const std::array<OutputSpec, 3> specs = {
        OutputSpec{.kind = OutputSpec::Kind::regex, .text = "[a-z ]{1,30}[0-9]{1,3}"},
        OutputSpec{.kind = OutputSpec::Kind::choice, .choices = {"apple", "a small boat", "7"}},
        OutputSpec{.kind = OutputSpec::Kind::json_schema,
                   .text = R"({"type":"object","properties":{"n":{"type":"integer"}}})"}};
    params.stop_token_ids.clear();
    params.bad_words_token_ids.clear();
    const auto source = std::make_shared<const structured_output::ConstraintSource>(
        structured_output::ConstraintSource{
            .spec = specs[static_cast<size_t>(index) % specs.size()], .reasoning = std::nullopt});
    options.constraint = structured_output::start_constraint(
        *source, *engine_->grammar_compiler().compile(source->spec));
    options.constraint_source = source;
  }

  api::AsyncEngine* engine_;
  std::vector<std::string> adapters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_live_ = 0;
};

/// The events of a load, so that a test can check that the load was mixed.
struct Mixture {
  uint64_t num_tokens = 0;
  int num_cached = 0;
  int num_preempted = 0;
  int num_with_adapter = 0;
  int num_constrained = 0;
  int num_aborted = 0;
  int num_random = 0;
};

Mixture mixture_of(const LogContent& log) {
  Mixture mix;
  for (const RequestRecord& request : log.requests) {
    mix.num_tokens += request.token_ids.size();
    mix.num_cached += request.num_cached_tokens > 0 ? 1 : 0;
    mix.num_preempted += request.num_preemptions > 0 ? 1 : 0;
    mix.num_with_adapter += request.adapter ? 1 : 0;
    mix.num_constrained += request.constraint ? 1 : 0;
    mix.num_aborted += request.finish_reason == "abort" ? 1 : 0;
    mix.num_random += request.params.temperature > 0 ? 1 : 0;
  }
  return mix;
}

struct ReplayOutcome {
  size_t num_answers = 0;
  std::vector<std::string> differences;
  std::vector<std::string> problems;
  std::vector<std::string> causes;
};

ReplayOutcome replay(const LogContent& log, const EngineArgs& args) {
  api::LLM llm(args);
  ReplayOutcome outcome;
  api::replay_requests(llm.loaded(), log.requests, [&](const api::ReplayedAnswer& answer) {
    ++outcome.num_answers;
    const RequestRecord& logged = *answer.logged;
    if (!answer.problem.empty()) outcome.problems.push_back(logged.id + ": " + answer.problem);
    if (answer.difference) {
      outcome.differences.push_back(logged.id + ": " +
                                    describe(*answer.difference, logged, answer.replayed));
      if (!answer.cause.empty()) outcome.causes.push_back(answer.cause);
    }
  });
  if (!outcome.differences.empty()) {
    Json now = api::engine_record(llm.loaded());
    api::add_file_digests(llm.loaded().args.model, now);
    for (std::string& cause : api::likely_causes(log.engines.begin()->second, now))
      outcome.causes.push_back(std::move(cause));
  }
  return outcome;
}

void expect_equal(const ReplayOutcome& outcome, const LogContent& log) {
  EXPECT_EQ(outcome.num_answers, log.requests.size());
  EXPECT_THAT(outcome.differences, IsEmpty());
  EXPECT_THAT(outcome.problems, IsEmpty());
}

/// The options of the log's engine, in the form that `reprise replay` uses; each request runs
/// alone.
EngineArgs alone(const LogContent& log) {
  EngineArgs args = api::args_of_record(log.engines.begin()->second);
  args.num_threads = 2;
  args.max_num_seqs = 1;
  return args;
}

LogContent log_of(EngineArgs args, const TempDirectory& folder, int num_requests) {
  args.replay_log = folder.path() / "answers.log";
  std::vector<std::string> adapters;
  if (args.enable_lora) {
    for (const uint32_t seed : {100U, 200U}) {
      adapters.push_back(fmt::format("a{}", seed));
      args.lora_modules.push_back({.name = adapters.back(), .path = write_adapter(folder, seed)});
    }
  }
  {
    api::AsyncEngine engine(args);
    MixedLoad(engine, adapters).run(num_requests, 5);
    EXPECT_EQ(engine.stats().replay_log->num_dropped, 0);
  }
  LogContent log = replay_log::read_log(args.replay_log);
  EXPECT_THAT(log.problems, IsEmpty());
  EXPECT_THAT(log.requests, SizeIs(static_cast<size_t>(num_requests)));
  return log;
}

// --- the contract ---

TEST(Replay, repeats_a_mixed_load_with_adapters_alone_and_in_other_modes_and_levels) {
  const TempDirectory folder;
  EngineArgs args = arguments("FULL_AND_PIECEWISE", 3);
  args.enable_lora = true;
  args.max_loras = 2;
  args.speculative_config = drafts("ngram");
  const LogContent log = log_of(args, folder, 150);
  const Mixture mix = mixture_of(log);
  EXPECT_GT(mix.num_cached, 5);
  EXPECT_GT(mix.num_preempted, 5);
  EXPECT_GT(mix.num_with_adapter, 20);
  EXPECT_GT(mix.num_constrained, 5);
  EXPECT_GT(mix.num_aborted, 5);
  EXPECT_GT(mix.num_random, 20);
  for (const RequestRecord& request : log.requests) {
    for (const uint64_t digest : request.digests) EXPECT_NE(digest, 0);
  }
  expect_equal(replay(log, alone(log)), log);
  EngineArgs other = alone(log);  // other options: eager, level 0, in batches, without drafts
  other.max_num_seqs = 4;
  other.max_num_batched_tokens = 64;
  other.compilation_config = {{"cudagraph_mode", "NONE"}, {"mode", 0}};
  other.speculative_config = Json::object();
  expect_equal(replay(log, other), log);
}

TEST(Replay, repeats_a_mixed_load_with_a_draft_model_in_other_modes_and_levels) {
  const TempDirectory folder;
  EngineArgs args = arguments("NONE", 0);
  args.speculative_config = drafts("draft_model");
  const LogContent log = log_of(args, folder, 100);
  EXPECT_GT(mixture_of(log).num_preempted, 0);
  EngineArgs other = alone(log);
  other.compilation_config = {{"cudagraph_mode", "FULL"}, {"mode", 3}};
  expect_equal(replay(log, other), log);
  other = arguments("FULL_DECODE_ONLY", 0);
  expect_equal(replay(log, other), log);
}

// The model makes its own drafts, so a step gives four tokens, and many answers end within a step.
TEST(Replay, tokens_of_a_step_that_follow_a_stop_string_are_not_recorded) {
  const TempDirectory folder;
  EngineArgs args = arguments("FULL", 0);
  args.speculative_config = drafts("draft_model");
  args.replay_log = folder.path() / "answers.log";
  std::map<std::string, std::vector<int32_t>> answers;
  {
    api::AsyncEngine engine(args);
    for (const std::string stop : {"a", "e", "i", "n", "o", "r", "s", "t", "u", "h"}) {
      std::promise<void> end;
      (void)engine.submit({606, 678, 263, 579},
                          {.temperature = 0, .max_tokens = 40, .stop = {stop}},
                          [&](engine::OutputDelta&& delta) {
                            std::vector<int32_t>& tokens = answers[stop];
                            tokens.insert(
                                tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
                            if (delta.finished) end.set_value();
                          },
                          {.client_id = stop});
      end.get_future().wait();
    }
  }
  const LogContent log = replay_log::read_log(args.replay_log);
  std::map<std::string, std::vector<int32_t>> recorded;
  for (const RequestRecord& request : log.requests) {
    EXPECT_EQ(request.finish_reason, "stop");
    EXPECT_THAT(request.digests, SizeIs(request.token_ids.size()));
    recorded[request.id] = request.token_ids;
  }
  EXPECT_EQ(recorded, answers);
}

TEST(Replay, repeats_a_load_that_was_scheduled_ahead) {
  const TempDirectory folder;
  EngineArgs args = arguments("FULL", 3);
  args.async_scheduling = true;
  const LogContent log = log_of(args, folder, 80);
  EngineArgs other = alone(log);
  other.async_scheduling = false;
  expect_equal(replay(log, other), log);
}

TEST(Replay, can_be_logged_itself) {
  const TempDirectory folder;
  const LogContent log = log_of(arguments("FULL", 0), folder, 12);
  EngineArgs args = alone(log);
  args.replay_log = folder.path() / "again.log";
  expect_equal(replay(log, args), log);
  LogContent again = replay_log::read_log(args.replay_log);
  for (const RequestRecord& logged : log.requests) {
    if (logged.token_ids.empty()) continue;
    const auto found = std::ranges::find(again.requests, logged.id, &RequestRecord::id);
    ASSERT_NE(found, again.requests.end());
    EXPECT_EQ(found->token_ids, logged.token_ids);
    EXPECT_EQ(found->digests, logged.digests);
  }
}

TEST(Replay, repeats_a_request_without_a_seed_in_an_engine_of_another_seed) {
  const TempDirectory folder;
  EngineArgs args = arguments("FULL", 0);
  args.seed = 11;
  args.replay_log = folder.path() / "answers.log";
  {
    api::LLM llm(args);
    (void)llm.generate_token_ids(std::vector<std::vector<int32_t>>{{5, 6, 7}, {8}},
                                 {.temperature = 1.5F, .max_tokens = 40, .ignore_eos = true});
  }
  const LogContent log = replay_log::read_log(args.replay_log);
  ASSERT_THAT(log.requests, SizeIs(2));
  EXPECT_EQ(log.requests[0].id, "0");
  EXPECT_NE(log.requests[0].params.seed, log.requests[1].params.seed);
  EngineArgs other = alone(log);
  other.seed = 12;
  expect_equal(replay(log, other), log);
}

TEST(Replay, compares_the_vectors_of_a_pooling_model) {
  const TempDirectory folder;
  EngineArgs args = arguments("FULL", 0);
  args.runner = "pooling";
  args.replay_log = folder.path() / "answers.log";
  {
    api::AsyncEngine engine(args);
    const auto done = std::make_shared<std::promise<void>>();
    (void)engine.submit({4, 5, 6, 7}, {}, [done](engine::OutputDelta&& delta) {
      EXPECT_FALSE(delta.pooled.empty());
      done->set_value();
    });
    done->get_future().get();
  }
  LogContent log = replay_log::read_log(args.replay_log);
  ASSERT_THAT(log.requests, SizeIs(1));
  ASSERT_TRUE(log.requests[0].vector_digest);
  expect_equal(replay(log, alone(log)), log);
  log.requests[0].prompt_token_ids.back() = 8;
  EXPECT_THAT(replay(log, alone(log)).differences, SizeIs(1));
}

// --- differences are named ---

TEST(Replay, names_another_instruction_set) {
  if (kernels::best_isa(device::detect_cpu_features()) == kernels::Isa::scalar) GTEST_SKIP();
  const TempDirectory folder;
  const LogContent log = log_of(arguments("FULL", 0), folder, 20);
  EngineArgs other = alone(log);
  other.cpu_isa = "scalar";
  const ReplayOutcome outcome = replay(log, other);
  ASSERT_THAT(outcome.differences, Not(IsEmpty()));
  // Two sets may agree in the first tokens.
  EXPECT_THAT(outcome.differences[0], HasSubstr("token "));
  EXPECT_THAT(outcome.causes[0], HasSubstr("another instruction set: "));
  EXPECT_THAT(outcome.causes[0], HasSubstr("now scalar"));
}

TEST(Replay, names_other_weights) {
  const TempDirectory folder;
  const std::filesystem::path model = folder.path() / "model";
  std::filesystem::copy(testing::bundled_model(), model);
  EngineArgs args = arguments("FULL", 0);
  args.model = model;
  const LogContent log = log_of(args, folder, 20);
  {
    std::fstream file(model / "model.safetensors", std::ios::in | std::ios::out);
    file.seekg(1'500'000);
    const auto byte = static_cast<char>(file.get() ^ 4);
    file.seekp(1'500'000);
    file.put(byte);
  }
  const ReplayOutcome outcome = replay(log, alone(log));
  ASSERT_THAT(outcome.differences, Not(IsEmpty()));
  EXPECT_EQ(outcome.causes[0], "other weights: model.safetensors");
}

TEST(Replay, names_another_adapter_and_an_adapter_that_is_gone) {
  const TempDirectory folder;
  EngineArgs args = arguments("FULL", 0);
  args.enable_lora = true;
  args.max_loras = 2;
  LogContent log = log_of(args, folder, 20);
  std::erase_if(log.requests, [](const RequestRecord& request) {
    return !request.adapter || request.adapter->name != "a100" || request.token_ids.empty();
  });
  ASSERT_FALSE(log.requests.empty());
  const std::filesystem::path path = log.requests[0].adapter->folder;
  const std::filesystem::path other = write_adapter(folder, 300);
  std::filesystem::rename(path, folder.path() / "moved");
  ReplayOutcome outcome = replay(log, alone(log));
  EXPECT_EQ(outcome.problems.size(), log.requests.size());
  EXPECT_THAT(outcome.problems[0], HasSubstr("adapter"));
  std::filesystem::rename(other, path);
  outcome = replay(log, alone(log));
  ASSERT_THAT(outcome.differences, Not(IsEmpty()));
  EXPECT_THAT(outcome.causes[0], HasSubstr("the adapter 'a100' in "));
}

TEST(Replay, says_that_a_constraint_without_a_source_cannot_be_repeated) {
  const TempDirectory folder;
  LogContent log = log_of(arguments("FULL", 0), folder, 6);
  for (RequestRecord& request : log.requests) request.has_unknown_constraint = true;
  const ReplayOutcome outcome = replay(log, alone(log));
  ASSERT_THAT(outcome.problems, Not(IsEmpty()));
  EXPECT_THAT(outcome.problems[0], HasSubstr("gave no source"));
}

TEST(ArgsOfRecord, asks_for_the_batch_invariance_that_the_logged_engine_had) {
  const TempDirectory folder;
  const LogContent log = log_of(arguments("NONE", 0), folder, 1);
  Json record = log.engines.begin()->second;
  EXPECT_EQ(record["bits"]["batch_invariant"], true);
  EXPECT_FALSE(api::args_of_record(record).batch_invariant.has_value());
  record["bits"]["cpu_isa"] = "amx";
  EXPECT_EQ(api::args_of_record(record).batch_invariant, std::optional(true));
  record["bits"]["batch_invariant"] = false;
  EXPECT_FALSE(api::args_of_record(record).batch_invariant.has_value());
}

TEST(LikelyCauses, come_in_the_order_of_their_likelihood_and_end_with_a_sentence) {
  const Json logged = {{"version", "1"},
                       {"build", "a"},
                       {"files", {{"model.safetensors", "1"}, {"config.json", "1"}}},
                       {"bits", {{"device", "cpu"}, {"cpu_isa", "avx2"}, {"dtype", "bfloat16"}}}};
  EXPECT_THAT(api::likely_causes(logged, logged)[0], HasSubstr("please report this"));
  Json now = logged;
  now["version"] = "2";
  now["bits"]["dtype"] = "float32";
  now["files"] = {{"model.safetensors", "2"}, {"added.json", "1"}};
  const std::vector<std::string> causes = api::likely_causes(logged, now);
  ASSERT_THAT(causes, SizeIs(5));
  EXPECT_EQ(causes[0], "other weights: model.safetensors");
  EXPECT_EQ(causes[1], "other file of the model: added.json was not there");
  EXPECT_EQ(causes[2], "other file of the model: config.json is missing");
  EXPECT_EQ(causes[3], "another dtype: bfloat16, now float32");
  EXPECT_EQ(causes[4], "another version of Reprise: 1, now 2");
  now = logged;
  now["build"] = "b";
  EXPECT_EQ(api::likely_causes(logged, now)[0], "another build of Reprise");
  now["bits"]["batch_invariant"] = false;
  Json batched = logged;
  batched["bits"]["batch_invariant"] = false;
  EXPECT_THAT(api::likely_causes(batched, batched)[0], HasSubstr("depend on its batches"));
}

}  // namespace
}  // namespace reprise
