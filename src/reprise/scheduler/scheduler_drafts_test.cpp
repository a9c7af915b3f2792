#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/scheduler/scheduler.h"
#include "tests/support/scheduler/scheduler_test_support.h"

// Draft tokens in the scheduler. The tests make up the results of the model.
namespace reprise::scheduler {
namespace {

using sampling::SampledToken;
using sampling::SamplingStatus;
using testing::kEos;
using testing::kPlain;
using Tokens = std::vector<int32_t>;

/// Proposes as many of these tokens as there is room for.
class ScriptedDrafter final : public speculative::TokenDrafter {
 public:
  Tokens drafts;
  int num_calls = 1'000'000;  // later calls propose nothing

  int propose(std::span<const int32_t> token_ids, std::span<int32_t> to) override {
    seen.assign(token_ids.begin(), token_ids.end());
    const size_t count = num_calls-- > 0 ? std::min(drafts.size(), to.size()) : 0;
    std::copy_n(drafts.begin(), count, to.begin());
    return static_cast<int>(count);
  }
  Tokens seen;
};

SchedulerConfig config_with_drafts(int num_drafts = 3) {
  SchedulerConfig config = testing::small_config();
  config.decode_query_len = 1 + num_drafts;
  config.pad_drafts = true;
  return config;
}

/// A scheduler with a drafter.
struct DraftBench {
  explicit DraftBench(SchedulerConfig config = config_with_drafts(), int num_blocks = 101)
      : cache(num_blocks, kv_cache::kDefaultBlockSize, kv_cache::PrefixCaching::on),
        scheduler(std::move(config), cache, &drafter) {}

  Request& add(int num_prompt_tokens, sampling::SamplingParams params = {.max_tokens = 50}) {
    Tokens prompt(static_cast<size_t>(num_prompt_tokens));
    for (int i = 0; i < num_prompt_tokens; ++i) prompt[static_cast<size_t>(i)] = 100 + i;
    const RequestId id{requests.size()};
    requests.push_back(std::make_unique<Request>(id, std::move(prompt), std::move(params)));
    scheduler.add_request(*requests.back());
    return *requests.back();
  }
  /// A request whose prompt is computed and that has one output token.
  Request& add_decoding(int num_prompt_tokens,
                        sampling::SamplingParams params = {.max_tokens = 50}) {
    Request& request = add(num_prompt_tokens, std::move(params));
    const Tokens drafts = std::exchange(drafter.drafts, {});
    while (request.num_output_tokens() == 0) step();
    drafter.drafts = drafts;
    return request;
  }
  /// Results in which every row sampled `token`. A draft is accepted only if it is `token`.
  static std::vector<SampledToken> results(const SchedulerOutput& output, int32_t token = kPlain) {
    std::vector<SampledToken> rows;
    for (const StepEntry& entry : output.scheduled) {
      bool is_reached = true;
      for (int row = 0; row < entry.num_sampled_rows(); ++row) {
        rows.push_back({.token_id = token,
                        .status = is_reached ? SamplingStatus::ok : SamplingStatus::not_reached});
        const auto index = static_cast<size_t>(row);
        is_reached = is_reached && row < entry.num_drafts && entry.placeholders[index] == token;
      }
    }
    return rows;
  }
  void step(int32_t token = kPlain) {
    const SchedulerOutput& output = scheduler.schedule();
    scheduler.update_from_output(results(output, token));
  }
  void expect_sound_cache() {
    std::vector<const kv_cache::BlockTable*> tables;
    for (const auto& request : requests) tables.push_back(&request->block_table());
    EXPECT_EQ(cache.find_broken_invariant(tables), "");
  }

  kv_cache::KvCacheManager cache;
  ScriptedDrafter drafter;
  Scheduler scheduler;
  std::vector<std::unique_ptr<Request>> requests;
};

Tokens to_tokens(std::span<const int32_t> tokens) { return {tokens.begin(), tokens.end()}; }

TEST(SchedulerDrafts, a_step_computes_the_last_token_and_its_drafts) {
  DraftBench bench;
  Request& request = bench.add_decoding(5);
  bench.drafter.drafts = {11, 12, 13, 14};
  const SchedulerOutput& output = bench.scheduler.schedule();
  ASSERT_EQ(output.num_reqs(), 1);
  const StepEntry& entry = output.scheduled[0];
  EXPECT_EQ(to_tokens(entry.token_ids), (Tokens{kPlain, 11, 12, 13}));
  EXPECT_EQ(entry.num_computed_tokens, 5);
  EXPECT_EQ(entry.num_drafts, 3);
  EXPECT_EQ(output.num_sampled_rows, 4);
  EXPECT_EQ(output.num_logits, 4);
  EXPECT_EQ(output.num_sampling_requests, 1);
  EXPECT_EQ(output.max_query_len, 4);
  EXPECT_EQ(bench.drafter.seen, (Tokens{100, 101, 102, 103, 104, kPlain}));
  EXPECT_EQ(to_tokens(request.output_token_ids()), Tokens{kPlain}) << "drafts are not tokens yet";
  EXPECT_EQ(entry.sampling_input({}).output_token_ids.size(), 1);
}

TEST(SchedulerDrafts, accepted_drafts_become_tokens_and_the_others_are_taken_back) {
  DraftBench bench;
  Request& request = bench.add_decoding(5);
  bench.drafter.drafts = {11, 12, 13};
  bench.scheduler.schedule();
  const std::vector<SampledToken> rows = {{.token_id = 11},
                                          {.token_id = 12},
                                          {.token_id = 99},
                                          {.status = SamplingStatus::not_reached}};
  const auto updates = bench.scheduler.update_from_output(rows);
  ASSERT_EQ(updates.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(updates[i].new_token_id, rows[i].token_id);
    EXPECT_EQ(updates[i].sampled, &rows[i]);
    EXPECT_FALSE(updates[i].finished);
  }
  EXPECT_EQ(to_tokens(request.output_token_ids()), (Tokens{kPlain, 11, 12, 99}));
  EXPECT_EQ(request.num_computed_tokens(), 8) << "all but the last token";
  const speculative::SpeculationStats& stats = bench.scheduler.speculation_stats();
  EXPECT_EQ(stats.num_drafts, 1);
  EXPECT_EQ(stats.num_draft_tokens, 3);
  EXPECT_EQ(stats.num_accepted_tokens_per_pos, (std::vector<uint64_t>{1, 1, 0}));
  // The next step continues after the last token.
  bench.drafter.drafts = {};
  const SchedulerOutput& next = bench.scheduler.schedule();
  EXPECT_EQ(to_tokens(next.scheduled[0].token_ids), Tokens{99});
  EXPECT_EQ(next.scheduled[0].num_computed_tokens, 8);
  EXPECT_EQ(next.scheduled[0].num_drafts, 0);
}

TEST(SchedulerDrafts, only_blocks_of_accepted_tokens_are_published) {
  DraftBench bench;
  Request& request = bench.add_decoding(14);  // 15 tokens; a block has 16
  ASSERT_EQ(bench.cache.num_published_blocks(), 0);
  bench.drafter.drafts = {11, 12, 13};
  bench.step(99);  // the step has computed 18 tokens, of which 15 are real
  EXPECT_EQ(request.num_computed_tokens(), 15);
  EXPECT_EQ(request.num_tokens(), 16);
  EXPECT_EQ(bench.cache.num_published_blocks(), 0) << "the block holds a rejected draft";
  bench.drafter.drafts = {99, 99, 99};
  bench.step(99);
  EXPECT_EQ(request.num_computed_tokens(), 19);
  EXPECT_EQ(bench.cache.num_published_blocks(), 1);
  bench.expect_sound_cache();
}

TEST(SchedulerDrafts, a_published_block_is_found_by_a_request_with_the_same_tokens) {
  DraftBench bench;
  Request& first = bench.add_decoding(15);
  bench.drafter.drafts = {kPlain, 12, 13};
  bench.step();  // one draft is accepted
  ASSERT_EQ(bench.cache.num_published_blocks(), 1);
  Tokens prompt = to_tokens(first.token_ids());
  Request second(RequestId{77}, prompt, {.max_tokens = 5});
  bench.scheduler.add_request(second);
  bench.drafter.drafts = {};
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_EQ(second.num_cached_tokens(), 16);
  EXPECT_EQ(output.num_reqs(), 2);
  bench.scheduler.update_from_output(DraftBench::results(output));
  (void)bench.scheduler.abort_request(second);
}

TEST(SchedulerDrafts, an_accepted_end_token_ends_the_answer_there) {
  DraftBench bench;
  Request& request = bench.add_decoding(5);
  bench.drafter.drafts = {11, kEos, 13};
  bench.scheduler.schedule();
  const auto updates = bench.scheduler.update_from_output(std::vector<SampledToken>{
      {.token_id = 11}, {.token_id = kEos}, {.token_id = 13}, {.token_id = 14}});
  ASSERT_EQ(updates.size(), 2);
  EXPECT_FALSE(updates[0].finished);
  EXPECT_EQ(updates[1].new_token_id, kEos);
  EXPECT_TRUE(updates[1].finished);
  EXPECT_EQ(request.status(), RequestStatus::finished_stopped);
  EXPECT_EQ(to_tokens(request.output_token_ids()), (Tokens{kPlain, 11, kEos}));
  EXPECT_TRUE(request.block_ids().empty());
  bench.expect_sound_cache();
}

TEST(SchedulerDrafts, an_answer_never_exceeds_max_tokens) {
  for (int max_tokens = 2; max_tokens <= 8; ++max_tokens) {
    DraftBench bench;
    Request& request = bench.add_decoding(5, {.max_tokens = max_tokens});
    bench.drafter.drafts = {kPlain, kPlain, kPlain};
    while (!request.is_finished()) {
      const SchedulerOutput& output = bench.scheduler.schedule();
      const StepEntry& entry = output.scheduled[0];
      // The last token is never computed.
      ASSERT_LE(entry.end(), 5 + max_tokens - 1);
      bench.scheduler.update_from_output(DraftBench::results(output));
    }
    EXPECT_EQ(request.num_output_tokens(), max_tokens);
    EXPECT_EQ(request.status(), RequestStatus::finished_length);
  }
}

TEST(SchedulerDrafts, prompts_and_their_first_step_have_none) {
  SchedulerConfig config = config_with_drafts();
  config.max_num_batched_tokens = 8;
  DraftBench bench(config);
  bench.drafter.drafts = {11, 12, 13};
  bench.add(20);
  for (int step = 0; step < 3; ++step) {
    const SchedulerOutput& output = bench.scheduler.schedule();
    EXPECT_EQ(output.scheduled[0].num_drafts, 0) << "chunk " << step;
    bench.scheduler.update_from_output(DraftBench::results(output));
  }
  EXPECT_EQ(bench.scheduler.schedule().scheduled[0].num_drafts, 3);
}

TEST(SchedulerDrafts, leave_one_token_of_the_budget_to_each_later_request) {
  SchedulerConfig config = config_with_drafts();
  config.max_num_batched_tokens = 8;
  DraftBench bench(config);
  for (int i = 0; i < 4; ++i) bench.add_decoding(2);
  bench.drafter.drafts = {11, 12, 13};
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_EQ(output.num_reqs(), 4);
  EXPECT_EQ(output.total_num_scheduled_tokens, 8);
}

TEST(SchedulerDrafts, take_no_blocks_that_another_request_needs) {
  // Two requests of 15 tokens have one block each; one more block is free.
  DraftBench bench(config_with_drafts(), /*num_blocks=*/4);
  Request& first = bench.add_decoding(15, {.max_tokens = 30});
  Request& second = bench.add_decoding(15, {.max_tokens = 30});
  bench.drafter.drafts = {11, 12, 13};
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_TRUE(output.preempted.empty());
  EXPECT_EQ(output.num_reqs(), 2);
  EXPECT_EQ(first.block_ids().size() + second.block_ids().size(), 3);
  bench.scheduler.update_from_output(DraftBench::results(output));
  bench.expect_sound_cache();
}

TEST(SchedulerDrafts, a_step_with_few_missing_drafts_is_padded_to_a_uniform_one) {
  DraftBench bench;
  bench.add_decoding(5);
  bench.add_decoding(6, {.max_tokens = 3});  // room for one draft
  bench.drafter.drafts = {11, 12, 13};
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_EQ(output.total_num_scheduled_tokens, 6);
  EXPECT_EQ(output.num_padding_tokens, 2);
  EXPECT_EQ(output.num_sampled_rows, 6) << "padding is not sampled";
  for (const StepEntry& entry : output.scheduled) EXPECT_EQ(entry.query_len(), 4);
}

TEST(SchedulerDrafts, a_step_with_many_missing_drafts_stays_ragged) {
  DraftBench bench;
  for (int i = 0; i < 5; ++i) bench.add_decoding(5);
  bench.drafter.drafts = {11, 12, 13};
  bench.drafter.num_calls = 1;
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_EQ(output.total_num_scheduled_tokens, 8);
  EXPECT_EQ(output.num_padding_tokens, 0) << "20 tokens are more than twice 8";
}

TEST(SchedulerDrafts, a_step_without_drafts_and_a_step_with_a_prompt_are_not_padded) {
  DraftBench bench;
  bench.add_decoding(5);
  bench.add_decoding(6);
  EXPECT_EQ(bench.scheduler.schedule().num_padding_tokens, 0);
  EXPECT_EQ(bench.scheduler.speculation_stats().num_drafts, 0);

  DraftBench mixed;
  mixed.add_decoding(5);
  mixed.add_decoding(6, {.max_tokens = 3});
  mixed.add(9);
  mixed.drafter.drafts = {11, 12, 13};
  EXPECT_EQ(mixed.scheduler.schedule().num_padding_tokens, 0);
}

TEST(SchedulerDrafts, are_as_many_as_the_schedule_has_for_the_number_of_running_requests) {
  SchedulerConfig config = config_with_drafts();
  config.drafts_by_batch_size = {0, 3, 3, 1, 0, 0, 0, 0, 0};
  config.fewer_draft_widths = {2};
  DraftBench bench(std::move(config));
  std::vector<int> drafts;
  std::vector<int> query_lens;
  for (int i = 0; i < 4; ++i) {
    bench.add_decoding(5);
    bench.drafter.drafts = {11, 12, 13};
    const SchedulerOutput& output = bench.scheduler.schedule();
    drafts.push_back(output.scheduled[0].num_drafts);
    query_lens.push_back(output.max_query_len);
    EXPECT_EQ(output.num_padding_tokens, 0);
    bench.scheduler.update_from_output(DraftBench::results(output));
  }
  EXPECT_EQ(drafts, (std::vector<int>{3, 3, 1, 0}));
  EXPECT_EQ(query_lens, (std::vector<int>{4, 4, 2, 1}));
}

TEST(SchedulerDrafts, a_postponed_request_computes_its_last_token_again) {
  DraftBench bench;
  Request& request = bench.add_decoding(5);
  bench.drafter.drafts = {11, 12};
  bench.scheduler.schedule();
  const SampledToken postponed{.status = SamplingStatus::postponed};
  EXPECT_TRUE(bench.scheduler.update_from_output(std::vector(3, postponed)).empty());
  EXPECT_EQ(request.num_tokens(), 6);
  EXPECT_EQ(request.num_computed_tokens(), 5);
  const SchedulerOutput& again = bench.scheduler.schedule();
  EXPECT_EQ(to_tokens(again.scheduled[0].token_ids), (Tokens{kPlain, 11, 12}));
  // The request's time runs out after its first token.
  bench.scheduler.update_from_output(
      std::vector<SampledToken>{{.token_id = 11}, postponed, postponed});
  EXPECT_EQ(to_tokens(request.output_token_ids()), (Tokens{kPlain, 11}));
  EXPECT_EQ(request.num_computed_tokens(), 6);
}

TEST(SchedulerDrafts, an_error_after_accepted_drafts_ends_the_request_after_them) {
  DraftBench bench;
  Request& request = bench.add_decoding(5);
  bench.drafter.drafts = {11, 12};
  bench.scheduler.schedule();
  const auto updates = bench.scheduler.update_from_output(
      std::vector<SampledToken>{{.token_id = 11},
                                {.status = SamplingStatus::non_finite_logits},
                                {.status = SamplingStatus::not_reached}});
  ASSERT_EQ(updates.size(), 1);
  EXPECT_TRUE(updates[0].finished);
  EXPECT_EQ(updates[0].new_token_id, 11);
  EXPECT_EQ(request.status(), RequestStatus::finished_error);
  EXPECT_EQ(bench.cache.num_published_blocks(), 0);
}

TEST(SchedulerDrafts, a_draft_outside_the_vocabulary_ends_the_run) {
  DraftBench bench;
  bench.add_decoding(5);
  bench.drafter.drafts = {11, testing::kVocabSize, 13};
  EXPECT_EQ(bench.scheduler.schedule().scheduled[0].num_drafts, 1);
}

TEST(SchedulerDrafts, a_request_whose_drafts_fail_gets_none_for_a_while) {
  DraftBench bench;
  bench.add_decoding(5, {.max_tokens = 120});
  bench.drafter.drafts = {11, 12, 13};
  for (int step = 0; step < 100; ++step) bench.step(99);
  EXPECT_EQ(bench.scheduler.speculation_stats().num_drafts, 6) << "four, and tries after 24 and 48";
}

TEST(SchedulerDrafts, exclude_asynchronous_scheduling) {
  SchedulerConfig config = config_with_drafts();
  config.async_scheduling = true;
  EXPECT_THROW(check_config(config, 100), InvalidArgument);
}

}  // namespace
}  // namespace reprise::scheduler
