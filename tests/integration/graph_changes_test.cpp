#include "reprise/api/graphs/graph_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "reprise/api/async_engine.h"
#include "reprise/api/llm.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "tests/support/source_dir.h"

// The graphs of an engine change while it answers. Answers must equal those of an engine without
// changes, no request may be lost, and all memory must be returned.
namespace reprise {
namespace {

using api::AsyncEngine;
using api::EngineArgs;
using api::EngineStats;
using api::GraphsBusyError;
using api::LLM;
using engine::OutputDelta;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

std::filesystem::path source(const char* path) {
  return std::filesystem::path(source_dir()) / path;
}

EngineArgs changeable_arguments() {
  EngineArgs args;
  args.model = source("models/reprise-tiny");
  args.max_num_seqs = 8;
  args.max_num_batched_tokens = 64;
  args.max_model_len = 192;
  args.num_threads = 2;
  args.compilation_config = {{"cudagraph_mode", "FULL_AND_PIECEWISE"}};
  return args;
}

sampling::SamplingParams changed_params_of(size_t index) {
  sampling::SamplingParams params{.temperature = 0, .max_tokens = 24, .ignore_eos = true};
  if (index % 3 == 2) {
    params.temperature = 1;
    params.seed = static_cast<int64_t>(index);
  }
  return params;
}

/// Prompts of 1 to 90 tokens: some need several steps.
std::vector<Tokens> changed_prompts(size_t count) {
  std::mt19937 random(5);
  std::vector<Tokens> prompts(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k <= i * 17 % 90; ++k)
      prompts[i].push_back(static_cast<int32_t>(100 + random() % 400));
  }
  return prompts;
}

std::vector<Tokens> answers_without_changes(const EngineArgs& args,
                                            const std::vector<Tokens>& prompts) {
  LLM llm(args);
  std::vector<Tokens> answers;
  for (size_t i = 0; i < prompts.size(); ++i) {
    answers.push_back(llm.generate_token_ids(std::span(&prompts[i], 1), changed_params_of(i))
                          .front()
                          .output.token_ids);
  }
  return answers;
}

/// Clients that ask all the time. Each client sends its own prompts, one after the other.
class ChangedLoad {
 public:
  ChangedLoad(AsyncEngine& engine,
              const std::vector<Tokens>& prompts,
              const std::vector<Tokens>& expected)
      : engine_(engine), prompts_(prompts), expected_(expected) {
    for (size_t client = 0; client < kClients; ++client) {
      clients_.emplace_back([this, client] { ask(client); });
    }
  }
  ChangedLoad(const ChangedLoad&) = delete;
  ChangedLoad& operator=(const ChangedLoad&) = delete;
  ~ChangedLoad() { (void)end(); }

  /// Returns the number of answers.
  size_t end() {
    is_over_ = true;
    for (std::thread& client : clients_) {
      if (client.joinable()) client.join();
    }
    return num_answers_;
  }
  [[nodiscard]] size_t num_answers() const { return num_answers_; }

 private:
  static constexpr size_t kClients = 6;

  void ask(size_t client) {
    for (size_t round = 0; !is_over_; ++round) {
      const size_t index = (client + round * kClients) % prompts_.size();
      std::mutex mutex;
      std::condition_variable changed;
      Tokens tokens;
      bool is_finished = false;
      std::string reason;
      (void)engine_.submit(
          prompts_[index], changed_params_of(index), [&](const OutputDelta& delta) {
            const std::lock_guard lock(mutex);
            tokens.insert(tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
            if (!delta.finished) return;
            is_finished = true;
            reason = delta.finish_reason + delta.error;
            changed.notify_one();
          });
      std::unique_lock lock(mutex);
      const bool has_ended =
          changed.wait_for(lock, std::chrono::seconds(120), [&] { return is_finished; });
      ASSERT_TRUE(has_ended) << "a request was lost";
      EXPECT_EQ(reason, "length");
      EXPECT_EQ(tokens, expected_[index]) << "request " << index;
      ++num_answers_;
    }
  }

  AsyncEngine& engine_;
  const std::vector<Tokens>& prompts_;
  const std::vector<Tokens>& expected_;
  std::atomic<bool> is_over_ = false;
  std::atomic<size_t> num_answers_ = 0;
  std::vector<std::thread> clients_;
};

Json change(AsyncEngine& engine, const Json& json) {
  return engine.change_graphs(api::parse_graph_change(json));
}

Json wait_until_done(AsyncEngine& engine) {
  const auto ends = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    Json state = engine.graphs();
    if (state["last_change"].is_null() || state["last_change"]["state"] == "done") return state;
    if (std::chrono::steady_clock::now() > ends) {
      ADD_FAILURE() << "a change does not end: " << state["last_change"].dump();
      return state;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<std::string> keys_in(const Json& state, std::string_view which) {
  std::vector<std::string> keys;
  for (const Json& key : state["keys"]) {
    if (key["state"] == which) keys.push_back(key["key"]);
  }
  return keys;
}

/// A random change of any kind. The order of changes depends only on `random`.
Json random_change(std::mt19937& random, AsyncEngine& engine) {
  const auto one_of = [&](const Json& choices) { return choices[random() % choices.size()]; };
  Json json = {{"capture_budget_ms", one_of({0.5, 5, 50})}};
  const std::vector<std::string> captured = keys_in(engine.graphs(), "captured");
  switch (random() % 6) {
    case 0:
    case 1:
      json["cudagraph_mode"] =
          one_of({"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", nullptr});
      break;
    case 2:
      json["cudagraph_capture_sizes"] =
          one_of({Json{1, 2, 4, 8}, Json{3, 8, 17, 64}, Json{8, 16, 32}, nullptr});
      break;
    case 3:
      json["shadow_check_rate"] = one_of({0, 0, 0.05, 0.5});
      break;
    case 4:
      json["verify_graphs"] = one_of({"off", "capture", "strict"});
      break;
    default: {
      const std::vector<std::string> quarantined = keys_in(engine.graphs(), "quarantined");
      if (quarantined.size() > 2) {
        json["release"] = quarantined;
      } else if (!captured.empty()) {
        json["quarantine"] = captured[random() % captured.size()];
      }
    }
  }
  return json;
}

size_t resident_kib() {
  (void)malloc_trim(0);
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

/// The figures of an engine with all graphs from its start.
struct Footprint {
  size_t graph_bytes = 0;
  size_t resident_kib = 0;
};

const Json kAsAtTheStart = {{"cudagraph_mode", "FULL_AND_PIECEWISE"},
                            {"cudagraph_capture_sizes", nullptr},
                            {"shadow_check_rate", 0},
                            {"verify_graphs", "capture"},
                            {"capture_budget_ms", 1000}};

Footprint footprint(AsyncEngine& engine) {
  wait_until_done(engine);
  (void)change(engine, kAsAtTheStart);
  wait_until_done(engine);
  (void)change(engine, {{"release", keys_in(engine.graphs(), "quarantined")}});
  const Json state = wait_until_done(engine);
  EXPECT_EQ(keys_in(state, "captured").size(), state["keys"].size());
  return {.graph_bytes = state["graph_bytes"], .resident_kib = resident_kib()};
}

/// The number of changes; 1000 can be set in the environment for a full run.
size_t num_changes(size_t by_default) {
  const char* text = std::getenv("REPRISE_TEST_GRAPH_CHANGES");
  return text == nullptr ? by_default : std::stoul(text);
}

void expect_answers_stay(const EngineArgs& args, size_t count, size_t warm_up) {
  const std::vector<Tokens> prompts = changed_prompts(24);
  const std::vector<Tokens> expected = answers_without_changes(args, prompts);
  AsyncEngine engine(args);
  std::mt19937 random(11);
  size_t num_busy = 0;
  const auto change_often = [&](size_t times) {
    ChangedLoad load(engine, prompts, expected);
    for (size_t i = 0; i < times; ++i) {
      const Json json = random_change(random, engine);
      SCOPED_TRACE(json.dump());
      const size_t before = load.num_answers();
      try {
        (void)change(engine, json);
      } catch (const GraphsBusyError&) {
        ++num_busy;  // must also change nothing
        wait_until_done(engine);
        (void)change(engine, json);
      }
      // Half of the changes arrive while the captures of the previous one are not finished.
      if (i % 2 == 0) wait_until_done(engine);
      while (load.num_answers() == before && !::testing::Test::HasFailure()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GE(load.end(), times);
  };
  change_often(warm_up);
  const Footprint early = footprint(engine);
  change_often(count);
  const Footprint late = footprint(engine);
  EXPECT_EQ(late.graph_bytes, early.graph_bytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(late.resident_kib, early.resident_kib + size_t{8} * 1024);
#endif
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.num_finished_error, 0U);
  EXPECT_EQ(stats.num_failed_steps, 0U);
  EXPECT_EQ(stats.shadow.num_differences, 0U);
  ASSERT_TRUE(stats.graphs);
  EXPECT_GE(stats.graphs->num_changes, count + warm_up);
  EXPECT_EQ(stats.graphs->num_failed_captures, 0U);
  printf(
      "%zu changes, %zu of them while another one captured; %lu captures in %.0f ms; graphs "
      "%zu -> %zu bytes, process %zu -> %zu KiB; %lu steps: %lu FULL, %lu PIECEWISE, %lu eager; "
      "%lu shadow checks\n",
      count + warm_up,
      num_busy,
      stats.graphs->num_captures,
      stats.graphs->capture_seconds * 1000,
      early.graph_bytes,
      late.graph_bytes,
      early.resident_kib,
      late.resident_kib,
      stats.num_steps,
      stats.steps_full,
      stats.steps_piecewise,
      stats.steps_eager,
      stats.shadow.num_checks);
}

TEST(GraphChanges, many_under_load_lose_no_request_change_no_token_and_leave_nothing) {
  const size_t count = num_changes(60);
  expect_answers_stay(changeable_arguments(),
                      count - std::min<size_t>(count / 2, 50),
                      std::min<size_t>(count / 2, 50));
}

TEST(GraphChanges, change_no_token_at_level_0) {
  EngineArgs args = changeable_arguments();
  args.compilation_config["mode"] = 0;
  expect_answers_stay(args, 12, 4);
}

TEST(GraphChanges, change_no_token_while_the_next_step_is_computed) {
  EngineArgs args = changeable_arguments();
  args.async_scheduling = true;
  expect_answers_stay(args, 16, 8);
}

TEST(GraphChanges, change_no_token_with_drafts) {
  for (const auto& [method, model] : {std::pair{"ngram", ""},
                                      {"draft_model", "models/reprise-tiny"},
                                      {"eagle3", "models/reprise-tiny-eagle3"}}) {
    SCOPED_TRACE(method);
    EngineArgs args = changeable_arguments();
    args.speculative_config = {{"method", method}, {"num_speculative_tokens", 2}};
    if (*model != '\0') args.speculative_config["model"] = source(model).string();
    expect_answers_stay(args, 6, 4);
  }
}

// --- one change ---

TEST(GraphChanges, keep_what_both_plans_have_and_give_the_rest_back) {
  AsyncEngine engine(changeable_arguments());
  const Json before = engine.graphs();
  const std::vector<std::string> captured = keys_in(before, "captured");
  ASSERT_EQ(captured.size(), before["keys"].size());
  const Json answer = change(engine, {{"cudagraph_mode", "PIECEWISE"}});
  EXPECT_EQ(answer["cudagraph_mode"], "PIECEWISE");
  EXPECT_EQ(answer["captures"]["graphs"], 0) << "PIECEWISE graphs were there";
  EXPECT_EQ(answer["state"], "done");
  const Json after = engine.graphs();
  EXPECT_EQ(after["cudagraph_mode"], "PIECEWISE");
  EXPECT_EQ(answer["given_back"], before["keys"].size() - after["keys"].size());
  EXPECT_LT(after["graph_bytes"], before["graph_bytes"]);
  for (const std::string& key : keys_in(after, "captured"))
    EXPECT_THAT(key, HasSubstr("PIECEWISE"));
  const Json back = change(engine, {{"cudagraph_mode", "FULL_AND_PIECEWISE"}});
  EXPECT_EQ(back["captures"]["graphs"], answer["given_back"]);
  EXPECT_GT(back["captures"]["predicted_ms"], 0);
  EXPECT_EQ(back["state"], "capturing");
  EXPECT_EQ(keys_in(wait_until_done(engine), "captured"), captured);
}

TEST(GraphChanges, are_resolved_and_refused_as_at_a_start) {
  const auto at_start = [](const Json& compilation) -> std::string {
    EngineArgs args = changeable_arguments();
    args.compilation_config.update(compilation);
    try {
      LLM llm(args);
      return llm.startup_report().resolved.warnings.empty()
                 ? ""
                 : llm.startup_report().resolved.warnings.back();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  const auto while_running = [](const Json& compilation) -> std::string {
    AsyncEngine engine(changeable_arguments());
    try {
      const Json answer = change(engine, compilation);
      wait_until_done(engine);
      return answer["warnings"].empty() ? "" : answer["warnings"].back().get<std::string>();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  for (const Json& compilation : {Json{{"cudagraph_mode", "FULL_DECODE_ONLY"}},
                                  Json{{"cudagraph_capture_sizes", {8, 100000}}},
                                  Json{{"cudagraph_capture_sizes", Json::array()}},
                                  Json{{"cudagraph_capture_sizes", {0}}},
                                  Json{{"cudagraph_mode", "SOMETIMES"}},
                                  Json{{"max_cudagraph_capture_size", -4}}}) {
    EXPECT_EQ(while_running(compilation), at_start(compilation)) << compilation;
  }
}

TEST(GraphChanges, that_need_a_restart_are_refused_by_name) {
  const auto refusal = [](const Json& json) -> std::string {
    try {
      (void)api::parse_graph_change(json);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  for (const char* name :
       {"mode", "splitting_ops", "backend", "attention_backend", "max_num_seqs"}) {
    EXPECT_THAT(refusal({{name, 1}}), HasSubstr(std::string(name) + ": cannot be changed"));
    EXPECT_THAT(refusal({{name, 1}}), HasSubstr("restart"));
  }
  EXPECT_THAT(refusal({{"cudagraph_modes", "FULL"}}), HasSubstr("is no field"));
  EXPECT_THAT(refusal({{"shadow_check_rate", 2}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal({{"shadow_check_rate", "1"}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal({{"verify_graphs", "a bit"}}), HasSubstr("verify_graphs"));
  EXPECT_THAT(refusal({{"quarantine", 8}}), HasSubstr("quarantine"));
  EXPECT_THAT(refusal({{"capture_budget_ms", 0}}), HasSubstr("capture_budget_ms"));
  EXPECT_THAT(refusal(Json::array()), HasSubstr("JSON object"));
}

TEST(GraphChanges, quarantine_a_key_and_capture_it_anew_before_it_is_replayed) {
  AsyncEngine engine(changeable_arguments());
  const std::string key = keys_in(engine.graphs(), "captured").back();
  EXPECT_EQ(change(engine, {{"quarantine", key}})["given_back"], 1);
  EXPECT_EQ(keys_in(engine.graphs(), "quarantined"), std::vector{key});
  EXPECT_EQ(engine.stats().shadow.quarantined.size(), 1U);
  // The key stays quarantined, even if a plan in between does not have it.
  (void)change(engine, {{"cudagraph_mode", "NONE"}});
  EXPECT_TRUE(engine.graphs()["keys"].empty());
  (void)change(engine, {{"cudagraph_mode", "FULL_AND_PIECEWISE"}});
  EXPECT_EQ(keys_in(wait_until_done(engine), "quarantined"), std::vector{key});
  const Json answer = change(engine, {{"release", key}});
  EXPECT_EQ(answer["captures"]["keys"], Json::array({key}));
  const Json state = wait_until_done(engine);
  EXPECT_TRUE(keys_in(state, "quarantined").empty());
  EXPECT_EQ(keys_in(state, "captured").size(), state["keys"].size());
  EXPECT_TRUE(engine.stats().shadow.quarantined.empty());
  EXPECT_THROW((void)change(engine, {{"quarantine", "FULL:12345"}}), InvalidArgument);
  EXPECT_THROW((void)change(engine, {{"release", "draft:FULL:1"}}), InvalidArgument);
}

TEST(GraphChanges, verify_every_graph_at_the_level_that_is_shown) {
  EngineArgs args = changeable_arguments();
  args.verify_graphs = "off";
  AsyncEngine engine(args);
  const size_t num_keys = engine.graphs()["keys"].size();
  EXPECT_EQ(change(engine, {{"verify_graphs", "strict"}})["captures"]["graphs"], num_keys);
  const Json state = wait_until_done(engine);
  EXPECT_EQ(state["verify_graphs"], "strict");
  EXPECT_EQ(keys_in(state, "captured").size(), num_keys);
  // A lower level proves nothing new, so no graph is captured.
  EXPECT_EQ(change(engine, {{"verify_graphs", "capture"}})["captures"]["graphs"], 0);
}

TEST(GraphChanges, check_replays_from_then_on) {
  AsyncEngine engine(changeable_arguments());
  const std::vector<Tokens> prompts = changed_prompts(12);
  const std::vector<Tokens> expected = answers_without_changes(changeable_arguments(), prompts);
  (void)change(engine, {{"shadow_check_rate", 1}});
  wait_until_done(engine);
  ChangedLoad load(engine, prompts, expected);
  while (load.num_answers() < 6 && !HasFailure()) std::this_thread::yield();
  (void)load.end();
  EXPECT_GT(engine.stats().shadow.num_checks, 10U);
  EXPECT_EQ(engine.stats().shadow.num_differences, 0U);
  (void)change(engine, {{"shadow_check_rate", 0}});
  const uint64_t checks = engine.stats().shadow.num_checks;
  ChangedLoad more(engine, prompts, expected);
  while (more.num_answers() < 6 && !HasFailure()) std::this_thread::yield();
  (void)more.end();
  EXPECT_EQ(engine.stats().shadow.num_checks, checks);
}

TEST(GraphChanges, wait_for_the_one_that_captures_and_for_a_sleeping_engine) {
  AsyncEngine engine(changeable_arguments());
  const std::vector<Tokens> prompts = changed_prompts(24);
  const std::vector<Tokens> expected = answers_without_changes(changeable_arguments(), prompts);
  ChangedLoad load(engine, prompts, expected);
  while (load.num_answers() < 2 && !HasFailure()) std::this_thread::yield();
  // The same sizes are captured again, with a budget of nearly nothing.
  const Json slow = {{"verify_graphs", "strict"}, {"capture_budget_ms", 0.01}};
  ASSERT_EQ(change(engine, slow)["state"], "capturing");
  EXPECT_THROW((void)change(engine, {{"cudagraph_mode", "NONE"}}), GraphsBusyError);
  EXPECT_EQ(engine.graphs()["cudagraph_mode"], "FULL_AND_PIECEWISE");
  // A wrong graph must be removed at once.
  const std::string key = engine.graphs()["keys"].back()["key"];
  EXPECT_EQ(change(engine, {{"quarantine", key}})["state"], "capturing");
  EXPECT_EQ(keys_in(engine.graphs(), "quarantined"), std::vector{key});
  (void)load.end();
  wait_until_done(engine);  // without requests nothing waits for the budget
  engine.sleep(api::SleepLevel::offload, api::SleepMode::wait);
  EXPECT_THROW((void)change(engine, {{"cudagraph_mode", "NONE"}}), GraphsBusyError);
  engine.wake_up();
  EXPECT_EQ(change(engine, {{"cudagraph_mode", "NONE"}})["state"], "done");
}

TEST(GraphChanges, rest_while_the_engine_sleeps) {
  AsyncEngine engine(changeable_arguments());
  const std::vector<Tokens> prompts = changed_prompts(12);
  const std::vector<Tokens> expected = answers_without_changes(changeable_arguments(), prompts);
  {
    ChangedLoad load(engine, prompts, expected);
    while (load.num_answers() < 2 && !HasFailure()) std::this_thread::yield();
    (void)change(engine, {{"verify_graphs", "strict"}, {"capture_budget_ms", 0.01}});
    EXPECT_EQ(engine.graphs()["last_change"]["state"], "capturing");
    // The requests of the load wait while the engine sleeps.
    engine.sleep(api::SleepLevel::offload, api::SleepMode::wait);
    const Json captured = engine.graphs()["last_change"]["captured"];
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(engine.graphs()["last_change"]["captured"], captured);
    engine.wake_up();
  }
  const Json state = wait_until_done(engine);
  EXPECT_EQ(keys_in(state, "captured").size(), state["keys"].size());
}

TEST(GraphChanges, keep_to_their_budget_while_requests_run) {
  const std::unique_ptr<api::LoadedEngine> loaded = api::load_engine(changeable_arguments());
  api::GraphChanges changes(*loaded);
  constexpr double kBudgetMs = 0.01;  // far less than a capture takes
  (void)changes.begin(
      api::parse_graph_change({{"verify_graphs", "strict"}, {"capture_budget_ms", kBudgetMs}}));
  size_t num_steps = 0;
  while (changes.is_capturing()) {
    ++num_steps;
    if (changes.is_due(false)) (void)changes.capture_one();
  }
  const Json last = changes.state()["last_change"];
  EXPECT_EQ(last["captured"], last["to_capture"]);
  EXPECT_GT(last["captured"], 5);
  EXPECT_LE(last["capture_ms"].get<double>(),
            kBudgetMs * static_cast<double>(num_steps) + last["longest_capture_ms"].get<double>());
  // Without requests, no wait is needed.
  (void)changes.begin(api::parse_graph_change({{"cudagraph_mode", "NONE"}}));
  (void)changes.begin(
      api::parse_graph_change({{"cudagraph_mode", nullptr}, {"capture_budget_ms", kBudgetMs}}));
  while (changes.is_capturing()) {
    ASSERT_TRUE(changes.is_due(true));
    (void)changes.capture_one();
  }
}

TEST(GraphChanges, look_into_a_graph_of_an_engine_without_requests) {
  AsyncEngine engine(changeable_arguments());
  const std::vector<Tokens> prompts = changed_prompts(12);
  const std::vector<Tokens> expected = answers_without_changes(changeable_arguments(), prompts);
  const std::string key = keys_in(engine.graphs(), "captured").back();
  const size_t num_keys = engine.graphs()["keys"].size();
  for (int round = 0; round < 2; ++round) {
    const Json profile = engine.profile_graph(key);
    EXPECT_GT(profile["nodes"].size(), 10U);
    EXPECT_GT(profile["replay_us"]["median"], 0);
    EXPECT_EQ(profile["engine"]["model"], "reprise-tiny");
    EXPECT_EQ(keys_in(engine.graphs(), "captured").size(), num_keys);
  }
  EXPECT_THROW((void)engine.profile_graph("FULL:12345"), InvalidArgument);
  ChangedLoad load(engine, prompts, expected);
  while (load.num_answers() < 12 && !HasFailure()) {
    try {
      (void)engine.profile_graph(key);
    } catch (const GraphsBusyError& error) {
      EXPECT_THAT(error.what(), HasSubstr("requests are answered"));
    }
  }
  EXPECT_GE(load.end(), 12U);
  EXPECT_EQ(engine.stats().num_failed_steps, 0U);
}

TEST(GraphChanges, leave_no_gap_in_strict_mode) {
  EngineArgs args = changeable_arguments();
  args.strict_graphs = true;
  AsyncEngine engine(args);
  const std::vector<Tokens> prompts = changed_prompts(24);
  const std::vector<Tokens> expected = answers_without_changes(changeable_arguments(), prompts);
  ChangedLoad load(engine, prompts, expected);
  for (const char* mode : {"FULL", "PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"}) {
    const size_t before = load.num_answers();
    EXPECT_EQ(change(engine, {{"cudagraph_mode", mode}})["state"], "done");
    while (load.num_answers() < before + 2 && !HasFailure()) std::this_thread::yield();
  }
  const std::string key = engine.graphs()["keys"].back()["key"];
  EXPECT_THROW((void)change(engine, {{"quarantine", key}}), InvalidArgument);
  (void)load.end();
  EXPECT_EQ(engine.stats().num_finished_error, 0U);
}

TEST(GraphChanges, of_several_ranks_are_refused_by_name) {
  // The refusal comes from the options, so one rank that is told of a second rank is enough for
  // this test.
  const std::unique_ptr<api::LoadedEngine> loaded = api::load_engine(changeable_arguments());
  api::GraphChanges changes(*loaded);
  loaded->args.data_parallel_size = 2;
  try {
    (void)changes.begin({});
    ADD_FAILURE() << "was not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("--data-parallel-size"));
  }
  EXPECT_EQ(changes.stats().num_refused, 1U);
}

}  // namespace
}  // namespace reprise
