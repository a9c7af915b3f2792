#include "reprise/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "tests/support/scheduler/scheduler_test_support.h"

namespace reprise::scheduler {
namespace {

using testing::Bench;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kEos;
using testing::scheduled_ids;
using testing::scheduled_tokens;
using testing::small_config;
using ::testing::UnorderedElementsAre;

TEST(Scheduler, cuts_prompts_to_fill_the_budget_and_serves_decodes_first) {
  Bench bench;  // 32 tokens per step
  bench.add(10);
  bench.add(40);
  const SchedulerOutput& first = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_ids(first), ElementsAre(0, 1));
  EXPECT_THAT(scheduled_tokens(first), ElementsAre(10, 22));
  EXPECT_TRUE(first.scheduled[0].samples);
  EXPECT_FALSE(first.scheduled[1].samples);
  EXPECT_EQ(first.num_sampling_requests, 1);
  EXPECT_EQ(first.max_query_len, 22);
  EXPECT_TRUE(first.any_prefill);
  bench.update(first);

  const SchedulerOutput& second = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_tokens(second), ElementsAre(1, 18));
  EXPECT_EQ(second.scheduled[1].num_computed_tokens, 22);
  EXPECT_TRUE(second.scheduled[1].samples);
  EXPECT_TRUE(second.any_prefill);
  bench.update(second);

  const SchedulerOutput& third = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_tokens(third), ElementsAre(1, 1));
  EXPECT_FALSE(third.any_prefill);
  EXPECT_EQ(third.max_query_len, 1);
}

TEST(Scheduler, spends_the_budget_exactly_at_its_edges) {
  for (const int num_prompt_tokens : {1, 31, 32, 33, 64, 65}) {
    Bench bench;
    Request& request = bench.add(num_prompt_tokens);
    int num_computed = 0;
    while (num_computed < num_prompt_tokens) {
      const SchedulerOutput& output = bench.scheduler.schedule();
      ASSERT_EQ(output.total_num_scheduled_tokens, std::min(32, num_prompt_tokens - num_computed));
      num_computed += output.total_num_scheduled_tokens;
      EXPECT_EQ(output.scheduled[0].samples, num_computed == num_prompt_tokens);
      bench.update(output);
    }
    EXPECT_EQ(request.num_output_tokens(), 1);
  }
}

TEST(Scheduler, admits_no_more_than_max_num_seqs) {
  SchedulerConfig config = small_config();
  config.max_num_seqs = 3;
  Bench bench(config);
  for (int i = 0; i < 5; ++i) bench.add(1, {.max_tokens = i == 0 ? 1 : 100});
  EXPECT_THAT(scheduled_ids(bench.scheduler.schedule()), ElementsAre(0, 1, 2));
  EXPECT_EQ(bench.scheduler.num_waiting(), 2U);
  bench.scheduler.update_from_output(std::vector<sampling::SampledToken>(3, {.token_id = 7}));
  // Request 0 has finished. Requests 1 and 2 decode; the one-token prompt of request 3 is a prefill
  // and comes after them.
  EXPECT_THAT(scheduled_ids(bench.scheduler.schedule()), ElementsAre(1, 2, 3));
}

TEST(Scheduler, limits_the_chunk_of_a_long_prefill) {
  SchedulerConfig config = small_config();
  config.long_prefill_token_threshold = 10;
  Bench bench(config);
  bench.add(50);
  bench.add(9);
  EXPECT_THAT(scheduled_tokens(bench.scheduler.schedule()), ElementsAre(9, 10));
}

TEST(Scheduler, without_chunked_prefill_runs_whole_prompts_only) {
  SchedulerConfig config = small_config();
  config.enable_chunked_prefill = false;
  config.max_model_len = 32;
  Bench bench(config);
  bench.add(20);
  bench.add(13);  // does not fit beside the first
  bench.add(1);   // would fit, but fcfs admits no request before an earlier one
  bench.step();
  EXPECT_EQ(bench.requests[0]->num_output_tokens(), 1);
  EXPECT_EQ(bench.requests[1]->num_computed_tokens(), 0);
  EXPECT_THAT(scheduled_tokens(bench.scheduler.schedule()), ElementsAre(1, 1, 13));
}

TEST(Scheduler, waits_for_blocks_of_the_whole_prompt_before_it_admits) {
  Bench bench(small_config(), /*num_blocks=*/5);  // 64 tokens
  bench.add(30, {.max_tokens = 3});
  bench.add(40);
  EXPECT_THAT(scheduled_ids(bench.scheduler.schedule()), ElementsAre(0));
  bench.scheduler.update_from_output(std::vector<sampling::SampledToken>(1, {.token_id = 7}));
  bench.step();
  bench.step();  // request 0 ends
  EXPECT_THAT(scheduled_ids(bench.scheduler.schedule()), ElementsAre(1));
}

TEST(Scheduler, preempts_the_last_admitted_request_and_recomputes_it) {
  Bench bench(small_config(), /*num_blocks=*/3);  // 2 usable blocks
  Request& first = bench.add(15, {.max_tokens = 10});
  Request& second = bench.add(16, {.max_tokens = 3});
  bench.step();  // 31 tokens: both prompts; both blocks are taken
  EXPECT_EQ(bench.cache.num_free_blocks(), 0);
  // The second request needs a new block for its 17th token, and it is itself the last one
  // admitted.
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_ids(output), ElementsAre(0));
  EXPECT_THAT(output.preempted, ElementsAre(&second));
  EXPECT_EQ(second.status(), RequestStatus::preempted);
  EXPECT_EQ(second.num_computed_tokens(), 0);
  EXPECT_EQ(second.num_prefill_tokens(), 17);
  EXPECT_TRUE(second.block_ids().empty());
  bench.update(output);
  while (!first.is_finished()) bench.step();
  EXPECT_EQ(first.finish_reason(), "length");
  // The prompt and the output so far are computed again as one prefill; the count of tokens
  // continues.
  const SchedulerOutput& resumed = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_tokens(resumed), ElementsAre(17));
  EXPECT_TRUE(resumed.scheduled[0].is_in_prefill);
  EXPECT_EQ(second.num_output_tokens(), 1);
  bench.update(resumed);
  bench.step();
  EXPECT_TRUE(second.is_finished());
  EXPECT_EQ(second.num_output_tokens(), 3);
  EXPECT_EQ(second.num_preemptions(), 1);
  EXPECT_EQ(bench.scheduler.num_preemptions(), 1);
  EXPECT_EQ(bench.cache.num_free_blocks(), 2);
}

TEST(Scheduler, lets_one_request_use_the_whole_cache_and_then_ends_it_by_length) {
  Bench bench(small_config(), /*num_blocks=*/3);  // 32 tokens
  EXPECT_EQ(bench.scheduler.max_model_len(), 33);
  Request& request = bench.add(32, {.max_tokens = {}});
  bench.step();
  EXPECT_TRUE(request.is_finished());  // its output token needs no slot
  Request& longer = bench.add(2, {.max_tokens = {}});
  for (int i = 0; i < 31; ++i) {
    EXPECT_FALSE(longer.is_finished());
    bench.step();
  }
  EXPECT_EQ(longer.finish_reason(), "length");
  EXPECT_EQ(longer.num_tokens(), 33);
}

std::string admission_error(Bench& bench,
                            std::vector<int32_t> prompt,
                            sampling::SamplingParams params = {}) {
  Request request(RequestId{99}, std::move(prompt), std::move(params));
  try {
    bench.scheduler.add_request(request);
  } catch (const InvalidArgument& error) {
    EXPECT_FALSE(bench.scheduler.has_unfinished_requests());
    return error.what();
  }
  bench.scheduler.abort_request(request);
  return {};
}

TEST(Scheduler, refuses_requests_that_could_never_run) {
  Bench bench;  // max_model_len 200
  EXPECT_THAT(admission_error(bench, {}), HasSubstr("empty"));
  EXPECT_EQ(admission_error(bench, std::vector<int32_t>(199, 1)), "");
  const std::string too_long = admission_error(bench, std::vector<int32_t>(200, 1));
  EXPECT_THAT(too_long, HasSubstr("prompt has 200 tokens"));
  EXPECT_THAT(too_long, HasSubstr("at most 199"));
  EXPECT_THAT(admission_error(bench, {1, -1}), HasSubstr("prompt token 1 is -1"));
  EXPECT_THAT(admission_error(bench, {testing::kVocabSize}), HasSubstr("[0, 999]"));
  EXPECT_THAT(admission_error(bench, {1}, {.top_p = 0.0F}), HasSubstr("top_p"));

  Bench tiny(small_config(), /*num_blocks=*/3);
  EXPECT_EQ(admission_error(tiny, std::vector<int32_t>(32, 1)), "");
  EXPECT_THAT(admission_error(tiny, std::vector<int32_t>(33, 1)),
              HasSubstr("the KV cache holds 32 (2 blocks of 16)"));
}

TEST(Scheduler, survives_the_largest_max_tokens) {
  Bench bench;
  EXPECT_EQ(bench.add(5, {.max_tokens = std::numeric_limits<int>::max()}).max_total_tokens(), 200);
}

TEST(Scheduler, refuses_options_that_cannot_work) {
  const auto error_of = [](auto change) -> std::string {
    SchedulerConfig config = small_config();
    change(config);
    try {
      Bench bench(config);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(error_of([](SchedulerConfig&) {}), "");
  EXPECT_THAT(error_of([](auto& c) { c.max_num_seqs = 0; }), HasSubstr("max_num_seqs is 0"));
  EXPECT_THAT(error_of([](auto& c) { c.max_num_batched_tokens = 7; }),
              HasSubstr("max_num_seqs (8)"));
  EXPECT_THAT(error_of([](auto& c) { c.enable_chunked_prefill = false; }),
              HasSubstr("max_model_len"));
  EXPECT_THAT(error_of([](auto& c) {
                c.enable_chunked_prefill = false;
                c.max_model_len = 32;
                c.long_prefill_token_threshold = 4;
              }),
              HasSubstr("long_prefill_token_threshold (4)"));
  EXPECT_THAT(error_of([](auto& c) { c.max_priority_wait_steps = 0; }),
              HasSubstr("max_priority_wait_steps"));
  EXPECT_THAT(error_of([](auto& c) { c.vocab_size = 0; }), HasSubstr("vocab_size"));
  EXPECT_THAT(error_of([](auto& c) { c.max_model_len = 1; }), HasSubstr("max_model_len"));
}

TEST(Scheduler, aborts_waiting_and_running_requests_at_once) {
  SchedulerConfig config = small_config();
  config.max_num_seqs = 1;
  Bench bench(config);
  Request& running = bench.add(20);
  Request& waiting = bench.add(20);
  bench.step();
  EXPECT_EQ(bench.scheduler.abort_request(waiting), AbortResult::released);
  EXPECT_EQ(bench.scheduler.abort_request(running), AbortResult::released);
  EXPECT_EQ(bench.scheduler.abort_request(running), AbortResult::already_finished);
  EXPECT_EQ(running.finish_reason(), "abort");
  EXPECT_FALSE(bench.scheduler.has_unfinished_requests());
  EXPECT_EQ(bench.cache.num_free_blocks(), 100);
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_TRUE(output.empty());
  EXPECT_THAT(output.finished_request_ids, ElementsAre(waiting.id(), running.id()));
  EXPECT_THAT(bench.scheduler.schedule().finished_request_ids, IsEmpty());
}

TEST(Scheduler, keeps_an_aborted_request_until_its_step_is_over) {
  Bench bench;
  Request& request = bench.add(5);
  Request& other = bench.add(5);
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_EQ(bench.scheduler.abort_request(request), AbortResult::released_after_step);
  EXPECT_EQ(bench.scheduler.abort_request(request), AbortResult::released_after_step);
  EXPECT_FALSE(request.block_ids().empty());  // the step may still write into these blocks
  const auto updates = bench.update(output);
  ASSERT_EQ(updates.size(), 1U);  // the aborted request gets no update
  EXPECT_EQ(updates[0].request, &other);
  EXPECT_EQ(updates[0].new_token_id, testing::kPlain);
  EXPECT_TRUE(request.block_ids().empty());
  EXPECT_EQ(request.num_output_tokens(), 0);
  EXPECT_THAT(bench.scheduler.schedule().finished_request_ids, ElementsAre(request.id()));
}

TEST(Scheduler, ends_a_request_for_a_stop_string_that_its_owner_found) {
  Bench bench;
  Request& request = bench.add(5);
  bench.step();
  EXPECT_EQ(bench.scheduler.finish_request(
                request, RequestStatus::finished_stopped, StopReason(std::string("END"))),
            AbortResult::released);
  EXPECT_EQ(request.finish_reason(), "stop");
  EXPECT_EQ(std::get<std::string>(request.stop_reason()), "END");
}

TEST(Scheduler, fails_only_the_request_whose_numbers_are_broken) {
  Bench bench;
  for (int i = 0; i < 3; ++i) bench.add(5);
  bench.scheduler.schedule();
  const auto updates = bench.scheduler.update_from_output(
      std::vector<sampling::SampledToken>{{.status = sampling::SamplingStatus::non_finite_logits},
                                          {.token_id = testing::kVocabSize},
                                          {.token_id = 9}});
  ASSERT_EQ(updates.size(), 3U);
  EXPECT_EQ(bench.requests[0]->finish_reason(), "error");
  EXPECT_THAT(std::string(bench.requests[0]->error()), HasSubstr("NaN"));
  EXPECT_EQ(bench.requests[1]->finish_reason(), "error");
  EXPECT_THAT(std::string(bench.requests[1]->error()), HasSubstr("vocabulary"));
  EXPECT_EQ(updates[2].new_token_id, 9);
  EXPECT_THAT(scheduled_ids(bench.scheduler.schedule()), ElementsAre(2));
}

TEST(Scheduler, ends_a_request_that_no_token_is_allowed_for) {
  Bench bench;
  for (int i = 0; i < 2; ++i) bench.add(5);
  bench.scheduler.schedule();
  const auto updates = bench.scheduler.update_from_output(std::vector<sampling::SampledToken>{
      {.status = sampling::SamplingStatus::no_allowed_token},
      {.status = sampling::SamplingStatus::no_allowed_token, .ends_answer = true}});
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_TRUE(updates[0].finished && updates[1].finished);
  EXPECT_EQ(bench.requests[0]->finish_reason(), "length");
  EXPECT_EQ(bench.requests[0]->stop_reason(), StopReason(std::string("no_allowed_token")));
  EXPECT_EQ(bench.requests[1]->finish_reason(), "stop");
  EXPECT_EQ(bench.requests[1]->num_output_tokens(), 0);
}

TEST(Scheduler, refuses_parameters_that_allow_no_first_token) {
  Bench bench;
  const auto add = [&bench](sampling::SamplingParams params) { bench.add(5, std::move(params)); };
  EXPECT_THROW(add({.min_tokens = 2, .allowed_token_ids = {kEos}}), InvalidArgument);
  EXPECT_THROW(add({.min_tokens = 2, .stop_token_ids = {9}, .allowed_token_ids = {9, kEos}}),
               InvalidArgument);
  EXPECT_THROW(add({.allowed_token_ids = {9}, .bad_words_token_ids = {{9}}}), InvalidArgument);
  add({.allowed_token_ids = {kEos}});
  add({.min_tokens = 2, .allowed_token_ids = {9, kEos}});
  add({.allowed_token_ids = {9}, .bad_words_token_ids = {{9, 9}}});
}

TEST(Scheduler, computes_the_last_token_again_for_a_request_that_had_no_turn) {
  Bench bench;
  for (int i = 0; i < 2; ++i) bench.add(5);
  bench.scheduler.schedule();
  const auto first = bench.scheduler.update_from_output(std::vector<sampling::SampledToken>{
      {.status = sampling::SamplingStatus::postponed}, {.token_id = 9}});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].request, bench.requests[1].get());
  EXPECT_EQ(bench.requests[0]->num_tokens(), 5);
  const SchedulerOutput& next = bench.scheduler.schedule();
  ASSERT_EQ(next.num_reqs(), 2);
  for (const StepEntry& entry : next.scheduled) {
    EXPECT_EQ(entry.num_tokens(), 1);
    EXPECT_TRUE(entry.samples);
    EXPECT_EQ(entry.num_computed_tokens, entry.request == bench.requests[0].get() ? 4 : 5);
  }
}

TEST(Scheduler, reports_only_requests_that_changed) {
  Bench bench;
  bench.add(50);
  EXPECT_TRUE(bench.update(bench.scheduler.schedule()).empty());
  const auto updates = bench.update(bench.scheduler.schedule(), kEos);
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_TRUE(updates[0].finished);
  EXPECT_EQ(updates[0].new_token_id, kEos);
  EXPECT_TRUE(bench.scheduler.update_from_output({}).empty());
}

struct Row {
  char name;
  int num_tokens;
  int num_computed;
  bool is_in_prefill;
};
std::string sorted_names(const std::vector<Row>& rows, int decode_query_len) {
  const std::vector<int32_t> tokens(4096);
  std::vector<StepEntry> batch;
  for (const Row& row : rows) {
    batch.push_back(
        {.token_ids = std::span(tokens).first(static_cast<size_t>(row.num_tokens)),
         .num_computed_tokens = row.num_computed * 1000 + static_cast<int>(batch.size()),
         .is_in_prefill = row.is_in_prefill});
    if (row.num_computed == 0) batch.back().num_computed_tokens = 0;
  }
  std::vector<StepEntry> sorted = batch;
  sort_batch(sorted, decode_query_len);
  std::string names;
  for (const StepEntry& entry : sorted) {
    for (size_t i = 0; i < batch.size(); ++i) {
      if (entry.num_computed_tokens == batch[i].num_computed_tokens &&
          entry.num_tokens() == batch[i].num_tokens() &&
          entry.is_in_prefill == batch[i].is_in_prefill) {
        names += rows[i].name;
      }
    }
  }
  return names;
}

// Rows V2D-13 and V2D-14: vLLM's tests/v1/worker/test_gpu_batch_ordering.py, and the later ordering
// by context.
TEST(SortBatch, orders_as_vllm_v2) {
  EXPECT_EQ(
      sorted_names({{'p', 100, 0, true}, {'d', 1, 1, false}, {'q', 7, 1, true}, {'e', 1, 1, false}},
                   1),
      "deqp");
  EXPECT_EQ(
      sorted_names({{'t', 1, 1, true}, {'d', 2, 1, false}, {'p', 100, 0, true}, {'e', 2, 1, false}},
                   2),
      "detp");
  EXPECT_EQ(sorted_names({{'f', 4096, 0, true}, {'r', 4096, 1, true}, {'d', 1, 1, false}}, 1),
            "drf");
}

TEST(SortBatch, puts_a_prefill_chunk_of_decode_length_after_the_decodes) {
  EXPECT_EQ(sorted_names({{'p', 1, 0, true}, {'d', 1, 1, false}, {'t', 1, 1, true}}, 1), "dtp");
}

// V2D-07, checked through the scheduler: the number of computed tokens makes a prefill, not its
// length.
TEST(Scheduler, calls_a_one_token_prompt_a_prefill) {
  Bench bench;
  bench.add(1);
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_TRUE(output.any_prefill);
  bench.update(output);
  EXPECT_FALSE(bench.scheduler.schedule().any_prefill);
}

TEST(Scheduler, lets_no_request_wait_for_the_prompt_logits_of_others) {
  SchedulerConfig config = small_config();
  config.max_prompt_logits = 4;
  Bench bench(config);
  const sampling::SamplingParams with_logprobs{.max_tokens = 1, .prompt_logprobs = 1};
  for (int i = 0; i < 2; ++i) bench.add(10, with_logprobs);
  bench.add(5, {.max_tokens = 1});
  // Request 0 takes all rows of logits, so request 1 waits and request 2 goes first.
  const SchedulerOutput& first = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_ids(first), UnorderedElementsAre(0, 2));
  bench.update(first);
  // Every step gives rows to the oldest request that needs rows, whatever arrives in the meantime.
  int steps = 0;
  for (; !bench.requests[1]->is_finished() && steps < 20; ++steps) {
    bench.add(5, {.max_tokens = 1});
    bench.step();
  }
  EXPECT_LE(steps, 6);
}

TEST(SchedulerDeathTest, stops_on_misuse) {
  Bench bench;
  Request& request = bench.add(5);
  EXPECT_DEATH(bench.scheduler.add_request(request), "added before");
  bench.scheduler.schedule();
  EXPECT_DEATH(bench.scheduler.schedule(), "before update_from_output");
  EXPECT_DEATH(bench.scheduler.update_from_output({}), "0 sampled tokens for 1");
}

TEST(Scheduler, ends_the_requests_of_a_failed_step_and_no_others) {
  SchedulerConfig config = small_config();
  config.max_num_seqs = 2;
  Bench bench(config);
  Request& failed = bench.add(5);
  Request& aborted = bench.add(7);
  Request& waiting = bench.add(9);
  EXPECT_TRUE(bench.scheduler.fail_scheduled("nothing was scheduled").empty());
  bench.step();
  (void)bench.scheduler.schedule();
  EXPECT_EQ(bench.scheduler.abort_request(aborted), AbortResult::released_after_step);

  const std::span<const RequestUpdate> updates = bench.scheduler.fail_scheduled("the fan stopped");
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_EQ(updates[0].request, &failed);
  EXPECT_TRUE(updates[0].finished);
  EXPECT_EQ(updates[0].new_token_id, std::nullopt);
  EXPECT_EQ(failed.status(), RequestStatus::finished_error);
  EXPECT_THAT(failed.error(), HasSubstr("the fan stopped"));
  EXPECT_EQ(failed.num_output_tokens(), 1);
  EXPECT_EQ(aborted.status(), RequestStatus::finished_aborted);
  EXPECT_EQ(bench.cache.num_free_blocks(), bench.cache.num_blocks() - 1);
  EXPECT_EQ(bench.scheduler.num_running(), 0U);

  const SchedulerOutput& next = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_ids(next), ElementsAre(2));
  EXPECT_THAT(next.finished_request_ids, ElementsAre(RequestId{0}, RequestId{1}));
  bench.update(next);
  EXPECT_EQ(waiting.num_output_tokens(), 1);
}

}  // namespace
}  // namespace reprise::scheduler
