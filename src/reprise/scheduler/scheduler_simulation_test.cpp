// A seeded simulator with a virtual clock: random arrivals, aborts, failing steps and tiny caches
// drive scheduler, cache and dispatcher against a model of the cache's memory. The content that a
// step reads must be exactly the content that the request's own tokens wrote. With asynchronous
// scheduling, a step is computed at any time between its scheduling and its update.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::scheduler {
namespace {

constexpr int kVocabSize = 64;
constexpr int32_t kEos = 0;

/// The next token as a function of all tokens so far, so that any scheduling must give the same
/// output.
int32_t next_token(std::span<const int32_t> token_ids) {
  uint64_t hash = 1469598103934665603ULL;
  for (const int32_t id : token_ids) hash = (hash ^ static_cast<uint64_t>(id)) * 1099511628211ULL;
  return static_cast<int32_t>((hash >> 32) % kVocabSize);
}

/// The content of a cache slot. A key or value depends on its token, on all tokens before it, and
/// on the cache salt. 0: an empty slot.
using Slot = uint64_t;

enum class Scheduling : uint8_t { sync, async, drafts };

/// Proposes the right tokens, wrong ones, or both.
class RandomDrafter final : public speculative::TokenDrafter {
 public:
  explicit RandomDrafter(uint32_t seed) : random_(seed) {}

  int propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) override {
    std::vector<int32_t> tokens(token_ids.begin(), token_ids.end());
    const size_t count = random_() % (drafts.size() + 1);
    for (int32_t& draft : drafts.first(count)) {
      draft =
          random_() % 5 == 0 ? static_cast<int32_t>(random_() % kVocabSize) : next_token(tokens);
      tokens.push_back(draft);
    }
    return static_cast<int>(count);
  }

 private:
  std::mt19937 random_;
};

class Simulation {
 public:
  Simulation(uint32_t seed, Scheduling scheduling) : random_(seed) {
    config_.async_scheduling = scheduling == Scheduling::async;
    config_.max_num_seqs = 1 + below(12);
    config_.max_num_batched_tokens = config_.max_num_seqs + below(80);
    config_.max_model_len = 20 + below(150);
    config_.eos_token_ids = {kEos};
    config_.vocab_size = kVocabSize;
    config_.scheduler_reserve_full_isl = below(3) != 0;
    config_.least_common_prefix_reqs = 2;
    config_.enable_chunked_prefill = below(4) != 0;
    const int block_size = 1 + below(20);
    const auto prefix_caching =
        below(4) == 0 ? kv_cache::PrefixCaching::off : kv_cache::PrefixCaching::on;
    const int num_blocks = 2 + (40 + below(400)) / block_size;  // tiny: preemptions are frequent
    if (scheduling == Scheduling::drafts) {
      drafter_ = std::make_unique<RandomDrafter>(seed);
      config_.decode_query_len = 2 + below(8);
      for (int width = 2; width < config_.decode_query_len; ++width) {
        if (below(3) == 0) config_.fewer_draft_widths.push_back(width);
      }
      config_.pad_drafts = below(3) != 0;
    }
    if (below(2) == 0) {
      config_.enable_chunked_prefill = true;
      num_state_slots_ = config_.max_num_seqs * config_.decode_query_len;
      // There are few snapshots, so that they are dropped more often for each other than with their
      // blocks.
      if (prefix_caching == kv_cache::PrefixCaching::on) num_snapshots_ = 1 + below(40);
      if (below(3) == 0) config_.prefix_cache_retention_interval = block_size * (1 + below(4));
    }
    states_.resize(static_cast<size_t>(1 + num_state_slots_ + num_snapshots_));
    cache_ = std::make_unique<kv_cache::KvCacheManager>(num_blocks,
                                                        block_size,
                                                        prefix_caching,
                                                        num_state_slots_ / config_.decode_query_len,
                                                        num_snapshots_,
                                                        config_.decode_query_len);
    if (!config_.enable_chunked_prefill) {
      config_.max_num_batched_tokens =
          std::max(config_.max_num_batched_tokens, config_.max_model_len);
    } else if (below(3) == 0) {
      config_.long_prefill_token_threshold = 1 + below(30);
    }
    if (num_state_slots_ > 0 && below(4) == 0) cut_at_chunks();
    if (below(2) == 0) {
      config_.policy = SchedulingPolicy::priority;
      config_.max_priority_wait_steps = 1 + below(200);
    }
    initialise_dispatcher();
    scheduler_ = std::make_unique<Scheduler>(config_, *cache_, drafter_.get());
    slots_.resize(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size));
  }

  /// Prompts are cut for chunks of states. A step needs room for one beside all decodes.
  void cut_at_chunks() {
    const int chunk = 1 + below(24);
    config_.state_chunk_tokens = chunk;
    config_.max_num_batched_tokens =
        std::max(config_.max_num_batched_tokens,
                 (config_.max_num_seqs - 1) * config_.decode_query_len + chunk);
    int& threshold = config_.long_prefill_token_threshold;
    if (threshold > 0) threshold = std::max(threshold, chunk);
  }

  void run(int num_steps_with_arrivals) {
    for (int step = 0; step < num_steps_with_arrivals && !::testing::Test::HasFatalFailure();
         ++step) {
      if (live_.empty()) now_us_ = std::max(now_us_, next_arrival_us_);
      for (; next_arrival_us_ <= now_us_; next_arrival_us_ += time_to_next_arrival()) arrive();
      if (below(40) == 0) abort_one();
      run_step();
    }
    if (::testing::Test::HasFatalFailure()) return;
    // Each step computes at least one token of the request that ranks first, so this loop ends.
    int num_left = 0;
    for (const auto& [id, live] : live_) num_left += 2 * live.request->max_total_tokens();
    for (int step = 0; scheduler_->has_unfinished_requests(); ++step) {
      ASSERT_LE(step, num_left) << "requests starve";
      run_step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_FALSE(schedule_step());
    EXPECT_TRUE(live_.empty());
    EXPECT_EQ(cache_->num_free_blocks(), cache_->num_blocks() - 1) << "leaked blocks";
    EXPECT_EQ(cache_->num_begun_snapshots(), 0) << "leaked snapshots";
  }

  [[nodiscard]] int64_t num_preemptions() const { return scheduler_->num_preemptions(); }
  [[nodiscard]] int64_t num_steps() const { return step_; }
  [[nodiscard]] int num_failed_steps() const { return num_failed_steps_; }
  [[nodiscard]] int num_promoted() const { return num_promoted_; }
  [[nodiscard]] int64_t num_graph_steps() const { return num_graph_steps_; }
  [[nodiscard]] int num_completed() const { return num_completed_; }
  [[nodiscard]] int num_aborted() const { return num_aborted_; }
  [[nodiscard]] int64_t num_cached_tokens() const { return num_cached_tokens_; }
  [[nodiscard]] int64_t num_common_blocks() const { return num_common_blocks_; }
  [[nodiscard]] int64_t num_restored_states() const { return num_restored_states_; }
  [[nodiscard]] int64_t num_saved_states() const { return num_saved_states_; }
  [[nodiscard]] int64_t num_steps_ahead() const { return num_steps_ahead_; }
  [[nodiscard]] int64_t num_dropped_tokens() const { return num_dropped_tokens_; }
  [[nodiscard]] int64_t num_uniform_draft_steps() const { return num_uniform_draft_steps_; }
  [[nodiscard]] const speculative::SpeculationStats& speculation() const {
    return scheduler_->speculation_stats();
  }

 private:
  struct Live {
    std::unique_ptr<Request> request;
    int num_computed = 0;             // contiguous since admission or the last preemption
    std::vector<Slot> contents = {};  // by position
    bool is_running = false;
    int num_prompt_logits = 0;
    // A failed step wrote into the request's blocks and ended the request.
    bool is_spoilt = false;
    // The number of the step; set when the request is promoted.
    std::optional<int64_t> deadline = {};
  };

  /// A step as the model gets it: these blocks and lengths say what the step may read and write.
  struct Step {
    struct Part {
      Request* request = nullptr;
      int num_computed = 0;
      int end = 0;
      std::span<int32_t> placeholders = {};
      std::vector<kv_cache::BlockId> blocks = {};
      kv_cache::StateSlot state = kv_cache::kNullStateSlot;
      kv_cache::StateSlot restored_state = kv_cache::kNullStateSlot;
      kv_cache::StateSlot saved_state = kv_cache::kNullStateSlot;
      int saved_end = 0;
      std::vector<kv_cache::StateSlot> states = {};  // after each token, padding included

      [[nodiscard]] bool has_drafts() const { return placeholders.size() > 1; }
    };
    std::vector<Part> parts = {};
    std::vector<sampling::SampledToken> sampled = {};
    bool is_computed = false;
  };

  void initialise_dispatcher() {
    const int largest = 1 + below(config_.max_num_batched_tokens);
    cudagraph::DispatcherOptions options{.mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                                         .uniform_decode_query_len = config_.decode_query_len,
                                         .max_num_seqs = config_.max_num_seqs};
    cudagraph::DecodeWidth without_drafts{.query_len = 1, .capture_sizes = {}};
    std::vector<cudagraph::DecodeWidth> fewer_drafts;
    for (const int width : config_.fewer_draft_widths) {
      fewer_drafts.push_back({.query_len = width, .capture_sizes = {}});
    }
    for (int size = 1; size < largest; size += 1 + below(8)) {
      options.mixed_capture_sizes.push_back(size);
      if (size > config_.max_num_seqs) continue;
      options.decode_capture_sizes.push_back(size * config_.decode_query_len);
      without_drafts.capture_sizes.push_back(size);
      for (cudagraph::DecodeWidth& width : fewer_drafts) {
        width.capture_sizes.push_back(size * width.query_len);
      }
    }
    options.mixed_capture_sizes.push_back(largest);
    if (drafter_ != nullptr) {
      options.other_decode_widths = std::move(fewer_drafts);
      options.other_decode_widths.push_back(std::move(without_drafts));
    }
    dispatcher_.initialize_cudagraph_keys(options);
    dispatcher_.mark_all_captured();
  }

  /// Bursts and pauses of requests alternate, a tenth of a second each.
  int64_t time_to_next_arrival() {
    const double mean_us = now_us_ / 100'000 % 2 == 0 ? 400 : 5'000;
    const double uniform = (1.0 + below(1 << 20)) / (1 << 20);
    return 1 + static_cast<int64_t>(-mean_us * std::log(uniform));
  }

  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

  void arrive() {
    const int max_prompt = scheduler_->max_model_len() - 1;
    std::vector<int32_t> prompt(
        static_cast<size_t>(1 + below(std::min(max_prompt, below(2) == 0 ? 8 : 1000))));
    // There are few stems, so that requests share prefixes; each prompt adds a tail of its own.
    const int stem = below(4);
    const int tail = below(static_cast<int>(prompt.size()) + 1);
    for (size_t i = 0; i < prompt.size(); ++i) {
      const bool is_stem = i + static_cast<size_t>(tail) < prompt.size();
      prompt[i] = is_stem ? 1 + (static_cast<int>(i) * 7 + stem) % (kVocabSize - 1)
                          : 1 + below(kVocabSize - 1);
    }
    sampling::SamplingParams params;
    params.max_tokens = below(5) == 0 ? std::optional<int>() : 1 + below(60);
    params.min_tokens = params.max_tokens ? below(*params.max_tokens) : 0;
    params.ignore_eos = below(4) == 0;
    const RequestId id{next_id_++};
    if (below(10) == 0) params.prompt_logprobs = 1;
    RequestOptions options;
    if (config_.policy == SchedulingPolicy::priority) options.priority = below(4) - 1;
    if (below(4) == 0) options.cache_salt = below(2) == 0 ? "a" : "b";
    Live live{.request =
                  std::make_unique<Request>(id, std::move(prompt), params, 0, std::move(options))};
    scheduler_->add_request(*live.request);
    live_.emplace(id, std::move(live));
  }

  void abort_one() {
    if (live_.empty()) return;
    auto victim = live_.begin();
    std::advance(victim, below(static_cast<int>(live_.size())));
    if (victim->second.request->is_finished()) return;
    ++num_aborted_;
    if (scheduler_->abort_request(*victim->second.request) == AbortResult::released) {
      live_.erase(victim);  // destroyed: the scheduler must not use the request any more
    }
  }

  /// Schedules as many steps ahead as allowed, sometimes fewer, then takes the results of one step.
  void run_step() {
    while (scheduler_->can_schedule() && (under_way_.empty() || below(10) != 0)) {
      if (!schedule_step()) break;
      if (::testing::Test::HasFatalFailure()) return;
    }
    if (!under_way_.empty()) take_results();
    check_cache_owners();
  }

  bool schedule_step() {
    const SchedulerOutput& output = scheduler_->schedule();
    for (const RequestId id : output.finished_request_ids) live_.erase(id);  // destroyed
    for (const Request* request : output.preempted) {
      for (const StepEntry& entry : output.scheduled) {
        EXPECT_LT(rank(*entry.request), rank(*request)) << "a preemption for somebody below";
      }
      EXPECT_EQ(request->status(), RequestStatus::preempted) << "admitted again in the same step";
      EXPECT_FALSE(request->is_in_flight()) << "it lost blocks that a step in flight uses";
      live_.at(request->id()).num_computed = 0;
      live_.at(request->id()).is_running = false;
    }
    if (output.empty()) {
      EXPECT_TRUE(live_.empty() || !under_way_.empty())
          << "a step must move whenever there is work";
      return false;
    }
    ++step_;
    num_steps_ahead_ += static_cast<int64_t>(under_way_.size());
    set_deadlines();
    check_batch(output);
    check_cache_owners();
    if (::testing::Test::HasFatalFailure()) return false;
    now_us_ += dispatch(output);
    keep(output);
    // The computing thread is sometimes fast: then all scheduled steps are already computed.
    if (below(3) == 0) compute_first(under_way_.size());
    if (below(30) == 0) abort_one();
    return true;
  }

  void keep(const SchedulerOutput& output) {
    Step& step = under_way_.emplace_back();
    for (const StepEntry& entry : output.scheduled) {
      step.parts.push_back({.request = entry.request,
                            .num_computed = entry.num_computed_tokens,
                            .end = entry.end(),
                            .placeholders = entry.placeholders,
                            .state = entry.request->state_slot(),
                            .restored_state = entry.restored_state,
                            .saved_state = entry.saved_state,
                            .saved_end = entry.saved_end});
      for (int i = 0; i < entry.query_len(); ++i) {
        step.parts.back().states.push_back(entry.state_slot_after(i, config_.decode_query_len));
      }
      const auto blocks = entry.request->block_ids();
      step.parts.back().blocks.assign(blocks.begin(), blocks.end());
      live_.at(entry.request->id()).num_computed += entry.num_tokens();
    }
  }

  void take_results() {
    if (below(300) == 0) return fail_step();
    compute_first(1);
    if (below(30) == 0) abort_one();
    const Step& step = under_way_.front();
    std::vector<const Request*> finished;
    int64_t num_tokens = std::ranges::count(
        step.sampled, sampling::SamplingStatus::ok, &sampling::SampledToken::status);
    for (const RequestUpdate& update : scheduler_->update_from_output(step.sampled)) {
      if (update.new_token_id) --num_tokens;
      if (update.finished) finished.push_back(update.request);
    }
    num_dropped_tokens_ += num_tokens;
    for (const Step::Part& part : step.parts) {
      if (part.has_drafts()) forget_rejected_drafts(*part.request);
    }
    for (const Request* request : finished) finish(*request);
    under_way_.pop_front();
  }

  /// Rejected drafts were computed, but their cache entries do not count.
  void forget_rejected_drafts(const Request& request) {
    Live& live = live_.at(request.id());
    live.num_computed = request.num_tokens() - 1;
    live.contents.resize(std::min(live.contents.size(), static_cast<size_t>(live.num_computed)));
  }

  /// The step writes wrong values wherever its requests may write, and then throws.
  void fail_step() {
    const Step& step = under_way_.front();
    for (const Step::Part& part : step.parts) {
      if (step.is_computed) break;
      live_.at(part.request->id()).is_spoilt = true;
      for (int i = part.num_computed; i < part.end; ++i) slot(part, i) = random_();
      for (const kv_cache::StateSlot after : part.states) {
        if (num_state_slots_ > 0) state(after) = random_();
      }
      if (part.saved_state != kv_cache::kNullStateSlot) state(part.saved_state) = random_();
    }
    for (const RequestUpdate& update : scheduler_->fail_scheduled("planted")) {
      EXPECT_TRUE(update.finished);
    }
    ++num_failed_steps_;
    under_way_.pop_front();
  }

  /// The microseconds that the step takes for its tokens, including padding.
  int64_t dispatch(const SchedulerOutput& output) {
    if (output.empty()) return 0;
    const int num_tokens = output.total_num_scheduled_tokens + output.num_padding_tokens;
    const bool has_graphs =
        output.max_query_len == 1 ||
        std::ranges::count(config_.fewer_draft_widths, output.max_query_len) > 0;
    const int query_len = has_graphs ? output.max_query_len : config_.decode_query_len;
    const cudagraph::BatchFacts facts{
        .num_tokens = num_tokens,
        .num_reqs = output.num_reqs(),
        .uniform = cudagraph::is_uniform_decode(
            output.max_query_len, query_len, num_tokens, output.num_reqs(), output.any_prefill),
        .query_len = query_len,
        .num_logits = output.num_logits};
    num_uniform_draft_steps_ += static_cast<int64_t>(facts.uniform && query_len > 1);
    const cudagraph::Decision decision = dispatcher_.dispatch(facts);
    EXPECT_GE(decision.descriptor.num_tokens, facts.num_tokens);
    const bool is_full = decision.mode == cudagraph::CudagraphRuntimeMode::FULL;
    EXPECT_TRUE(!is_full || facts.uniform) << "a decode graph for a batch with prompts";
    if (decision.mode != cudagraph::CudagraphRuntimeMode::NONE) {
      ++num_graph_steps_;
      EXPECT_TRUE(dispatcher_.is_captured(decision.mode, decision.descriptor));
    }
    return (is_full ? 100 : 300) + 20 * int64_t{decision.descriptor.num_tokens};
  }

  [[nodiscard]] std::tuple<bool, int, uint64_t> rank(const Request& request) const {
    const bool by_arrival = config_.policy == SchedulingPolicy::fcfs || request.is_promoted();
    return {!by_arrival, by_arrival ? 0 : request.priority(), request.arrival_order()};
  }

  /// Sets the bound within which a promoted request must end: all requests that ran or were
  /// promoted before it end first, and each of them takes one step per token, or two steps per
  /// token if it is preempted.
  void set_deadlines() {
    for (auto& [id, live] : live_) {
      if (!live.request->is_promoted() || live.deadline || live.request->is_finished()) continue;
      ++num_promoted_;
      int64_t num_steps = 0;
      for (const auto& [other_id, other] : live_) {
        if (other.is_running || other.request->is_promoted()) {
          num_steps += 2 * int64_t{other.request->max_total_tokens()};
        }
      }
      live.deadline = step_ + num_steps;
    }
    for (const auto& [id, live] : live_) {
      ASSERT_TRUE(live.request->is_finished() || step_ <= live.deadline.value_or(step_))
          << "a promoted request starves";
    }
  }

  void check_batch(const SchedulerOutput& output) {
    ASSERT_LE(output.num_reqs(), config_.max_num_seqs);
    int total = 0;
    int num_samples = 0;
    int num_rows = 0;
    int padding = 0;
    int max_query_len = 0;
    bool any_prefill = false;
    const Request* first = nullptr;  // the running request that ranks first
    for (const StepEntry& entry : output.scheduled) {
      const Request& request = *entry.request;
      const int end = entry.end();
      ASSERT_GE(entry.num_tokens(), 1);
      if (Live& live = live_.at(request.id()); !std::exchange(live.is_running, true)) {
        check_cached_prefix(entry);
        live.num_computed = entry.num_computed_tokens;
      }
      ASSERT_EQ(entry.num_computed_tokens, live_.at(request.id()).num_computed)
          << "a gap or a repeat";
      ASSERT_FALSE(request.is_finished());
      // The tokens that the request had before schedule() added a placeholder for this step's
      // sample.
      const int num_tokens = static_cast<int>(request.token_ids_with_placeholders().size()) -
                             static_cast<int>(entry.samples);
      ASSERT_LE(end, num_tokens);
      ASSERT_LT(end, request.max_total_tokens()) << "its last token only ends it";
      ASSERT_EQ(entry.samples, end == num_tokens);
      ASSERT_EQ(entry.placeholders.size(), static_cast<size_t>(entry.num_sampled_rows()));
      ASSERT_LT(entry.num_drafts, config_.decode_query_len);
      ASSERT_TRUE(entry.num_drafts == 0 || !entry.is_in_prefill);
      ASSERT_EQ(entry.is_in_prefill, entry.num_computed_tokens < request.num_prefill_tokens());
      ASSERT_EQ(request.num_computed_tokens(), end);
      ASSERT_GE(static_cast<int>(request.block_ids().size()), cache_->blocks_for(end));
      // The request keeps the blocks of rejected drafts for its next tokens.
      ASSERT_LE(static_cast<int>(request.block_ids().size()),
                cache_->blocks_for(num_tokens + config_.decode_query_len - 1));
      if (config_.long_prefill_token_threshold > 0) {
        ASSERT_LE(entry.num_tokens() - entry.num_drafts, config_.long_prefill_token_threshold);
      }
      if (!config_.enable_chunked_prefill && !request.params().prompt_logprobs) {
        ASSERT_TRUE(entry.samples);
      }
      const int chunk = config_.state_chunk_tokens;
      ASSERT_TRUE(!entry.is_in_prefill || end == num_tokens || end % chunk == 0)
          << "a prompt is cut at " << end << ", inside of a chunk of " << chunk;
      ASSERT_TRUE(entry.num_computed_tokens % chunk != chunk - 1 || entry.num_tokens() == 1 ||
                  chunk == 1 || !entry.is_in_prefill)
          << "the last token of a chunk is computed with the next chunk";
      total += entry.num_tokens();
      num_samples += static_cast<int>(entry.samples);
      max_query_len = std::max(max_query_len, entry.query_len());
      num_rows += entry.num_sampled_rows();
      ASSERT_GE(entry.num_padding_tokens, 0);
      padding += entry.num_padding_tokens;
      any_prefill |= entry.is_in_prefill;
      live_.at(request.id()).num_prompt_logits += entry.num_prompt_logits;
    }
    for (const auto& [id, live] : live_) {
      const Request* request = live.request.get();
      if (request->is_finished()) continue;
      if (live.is_running && (first == nullptr || rank(*request) < rank(*first))) first = request;
    }
    // While another step is in flight, the first request may have to wait: for blocks, or because
    // its last step is already scheduled.
    ASSERT_TRUE(first == nullptr || !under_way_.empty() ||
                std::ranges::any_of(output.scheduled,
                                    [first](const auto& entry) { return entry.request == first; }))
        << "who ranks first is part of every step";
    ASSERT_EQ(output.total_num_scheduled_tokens, total);
    ASSERT_LE(total, config_.max_num_batched_tokens);
    ASSERT_EQ(output.num_padding_tokens, padding);
    ASSERT_LE(total + padding, config_.max_num_batched_tokens);
    ASSERT_TRUE(padding == 0 ||
                (!any_prefill && total + padding == output.num_reqs() * max_query_len));
    const int width = max_query_len;
    ASSERT_TRUE(padding == 0 || width == config_.decode_query_len ||
                std::ranges::count(config_.fewer_draft_widths, width) > 0);
    ASSERT_EQ(output.num_sampling_requests, num_samples);
    ASSERT_EQ(output.num_sampled_rows, num_rows);
    ASSERT_EQ(output.max_query_len, max_query_len);
    ASSERT_EQ(output.any_prefill, any_prefill);
    check_order(output, config_.decode_query_len);
    check_common_prefix(output);
  }

  /// Checks that all requests have the blocks of the common prefix and have computed them, and that
  /// the next block is not common.
  void check_common_prefix(const SchedulerOutput& output) {
    ASSERT_EQ(output.common_prefix_len % cache_->block_size(), 0);
    if (output.num_reqs() < config_.least_common_prefix_reqs) {
      ASSERT_EQ(output.common_prefix_len, 0);
      return;
    }
    const auto is_common = [&](int block) {
      const auto index = static_cast<size_t>(block);
      return std::ranges::all_of(output.scheduled, [&](const StepEntry& entry) {
        return entry.num_computed_tokens >= (block + 1) * cache_->block_size() &&
               entry.request->block_ids()[index] ==
                   output.scheduled.front().request->block_ids()[index];
      });
    };
    const int num_blocks = output.common_prefix_len / cache_->block_size();
    for (int block = 0; block < num_blocks; ++block) ASSERT_TRUE(is_common(block));
    ASSERT_FALSE(is_common(num_blocks));
    num_common_blocks_ += num_blocks;
  }

  /// Checks how many tokens of an admitted request come from the cache; compute() checks their
  /// content.
  void check_cached_prefix(const StepEntry& entry) {
    const Request& request = *entry.request;
    ASSERT_EQ(entry.num_computed_tokens % cache_->block_size(), 0) << "whole blocks only";
    ASSERT_LT(entry.num_computed_tokens, request.num_tokens()) << "the last token is computed";
    if (cache_->prefix_caching() == kv_cache::PrefixCaching::off) {
      ASSERT_EQ(entry.num_computed_tokens, 0);
    }
    num_cached_tokens_ += entry.num_computed_tokens;
    if (request.num_preemptions() == 0) {
      ASSERT_EQ(request.num_cached_tokens(), entry.num_computed_tokens);
    }
  }

  static void check_order(const SchedulerOutput& output, int decode_query_len) {
    for (size_t i = 1; i < output.scheduled.size(); ++i) {
      const StepEntry& a = output.scheduled[i - 1];
      const StepEntry& b = output.scheduled[i];
      const auto is_decode = [decode_query_len](const StepEntry& entry) {
        return !entry.is_in_prefill && entry.query_len() == decode_query_len;
      };
      ASSERT_TRUE(is_decode(a) || !is_decode(b)) << "decodes come first";
      if (is_decode(a) == is_decode(b)) {
        ASSERT_LE(a.query_len(), b.query_len()) << "then shorter ones";
      }
    }
  }

  /// Computes the oldest steps in order, like a device.
  void compute_first(size_t num_steps) {
    for (size_t i = 0; i < num_steps; ++i) {
      if (!std::exchange(under_way_[i].is_computed, true)) compute(under_way_[i]);
    }
  }

  /// Writes the step's tokens through the block tables, then reads back every request's context.
  void compute(Step& step) {
    if (num_state_slots_ > 0) compute_states(step);
    for (const Step::Part& part : step.parts) {
      for (int i = part.num_computed; i < part.end; ++i) slot(part, i) = wanted(*part.request, i);
    }
    for (const Step::Part& part : step.parts) {
      for (int i = 0; i < part.end && !live_.at(part.request->id()).is_spoilt; ++i) {
        EXPECT_EQ(slot(part, i), wanted(*part.request, i))
            << "someone else wrote into a live block";
      }
      sample(part, step);
    }
  }

  /// Copies states as the runner does, and adds each token to the state of its request exactly
  /// once.
  void compute_states(const Step& step) {
    for (const Step::Part& part : step.parts) {
      ASSERT_NE(part.state, kv_cache::kNullStateSlot);
      if (part.restored_state == kv_cache::kNullStateSlot) continue;
      ASSERT_GT(static_cast<int>(part.restored_state), num_state_slots_) << "no snapshot";
      state(part.state) = state(part.restored_state);
      ++num_restored_states_;
    }
    for (const Step::Part& part : step.parts) {
      if (part.num_computed > 0 && !live_.at(part.request->id()).is_spoilt) {
        EXPECT_EQ(state(part.state), wanted(*part.request, part.num_computed - 1))
            << "not its own states";
      }
      for (size_t i = 0; i < part.states.size(); ++i) {
        const int position = part.num_computed + static_cast<int>(i);
        state(part.states[i]) =
            position < part.end ? wanted(*part.request, position) : Slot{random_()};
      }
    }
    for (const Step::Part& part : step.parts) {
      if (part.saved_state == kv_cache::kNullStateSlot) continue;
      ASSERT_GT(static_cast<int>(part.saved_state), num_state_slots_) << "no snapshot";
      const auto token = static_cast<size_t>(part.saved_end - part.num_computed) - 1;
      state(part.saved_state) = state(part.states.at(token));
      ++num_saved_states_;
    }
  }
  Slot& state(kv_cache::StateSlot slot) { return states_.at(static_cast<size_t>(slot)); }

  /// Samples the rows of a request up to the first draft that is not accepted.
  static void sample(const Step::Part& part, Step& step) {
    const size_t num_rows = part.placeholders.size();
    bool is_reached = true;
    for (size_t row = 0; row < num_rows; ++row) {
      if (!is_reached) {
        step.sampled.push_back({.status = sampling::SamplingStatus::not_reached});
        continue;
      }
      const size_t num_known = static_cast<size_t>(part.end) - (num_rows - 1) + row;
      const int32_t token =
          next_token(part.request->token_ids_with_placeholders().first(num_known));
      step.sampled.push_back({.token_id = token});
      is_reached = part.placeholders[row] == token;
      part.placeholders[row] = token;
    }
  }

  Slot& slot(const Step::Part& part, int position) {
    const auto block =
        static_cast<size_t>(part.blocks[static_cast<size_t>(position / cache_->block_size())]);
    const auto size = static_cast<size_t>(cache_->block_size());
    return slots_[block * size + static_cast<size_t>(position) % size];
  }

  Slot wanted(const Request& request, int position) {
    std::vector<Slot>& contents = live_.at(request.id()).contents;
    while (contents.size() <= static_cast<size_t>(position)) {
      const Slot before =
          contents.empty() ? std::hash<std::string_view>{}(request.cache_salt()) : contents.back();
      const auto token =
          static_cast<uint64_t>(request.token_ids_with_placeholders()[contents.size()]);
      contents.push_back((before ^ (token + 1)) * 0x9E3779B97F4A7C15ULL + 1);
    }
    return contents[static_cast<size_t>(position)];
  }

  void check_cache_owners() {
    std::vector<const kv_cache::BlockTable*> tables;
    for (const auto& [id, live] : live_) tables.push_back(&live.request->block_table());
    ASSERT_EQ(cache_->find_broken_invariant(tables), "");
  }

  void finish(const Request& request) {
    const Live& live = live_.at(request.id());
    if (request.status() != RequestStatus::finished_aborted) {
      ++num_completed_;
      // A step in flight may already have computed the token that ended the request.
      EXPECT_GE(live.num_computed, request.num_tokens() - 1);
      EXPECT_LE(live.num_computed, request.num_tokens() - (request.is_in_flight() ? 0 : 1));
      EXPECT_EQ(live.num_prompt_logits, request.num_prompt_logits()) << "each once, cached or not";
      EXPECT_EQ(request.num_computed_tokens(), live.num_computed);
      check_output(request);
    }
  }

  /// Checks that the output is the one that this request would have if it ran alone.
  static void check_output(const Request& request) {
    std::vector<int32_t> tokens(request.prompt_token_ids().begin(),
                                request.prompt_token_ids().end());
    std::string reason;
    while (reason.empty()) {
      tokens.push_back(next_token(tokens));
      const int num_output = static_cast<int>(tokens.size()) - request.num_prompt_tokens();
      if (tokens.back() == kEos && !request.params().ignore_eos &&
          num_output >= request.params().min_tokens) {
        reason = "stop";
      } else if (static_cast<int>(tokens.size()) == request.max_total_tokens()) {
        reason = "length";
      }
    }
    EXPECT_EQ(request.finish_reason(), reason);
    EXPECT_TRUE(std::ranges::equal(request.token_ids(), tokens));
  }

  std::mt19937 random_;
  SchedulerConfig config_;
  std::unique_ptr<kv_cache::KvCacheManager> cache_;
  std::unique_ptr<RandomDrafter> drafter_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Slot> slots_;
  int num_state_slots_ = 0;  // 0: without recurrent layers
  int num_snapshots_ = 0;
  std::vector<Slot> states_;  // by slot
  int64_t num_restored_states_ = 0;
  int64_t num_saved_states_ = 0;
  std::map<RequestId, Live> live_;  // oldest first
  uint64_t next_id_ = 0;
  int num_completed_ = 0;
  int num_aborted_ = 0;
  int64_t num_cached_tokens_ = 0;
  int64_t num_common_blocks_ = 0;
  cudagraph::CudagraphDispatcher dispatcher_;
  int64_t now_us_ = 0;
  int64_t next_arrival_us_ = 0;
  int64_t step_ = 0;
  int num_failed_steps_ = 0;
  int num_promoted_ = 0;
  int64_t num_graph_steps_ = 0;
  std::deque<Step> under_way_;
  int64_t num_steps_ahead_ = 0;
  int64_t num_dropped_tokens_ = 0;
  int64_t num_uniform_draft_steps_ = 0;
};

struct Totals {
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t completed = 0;
  int64_t aborted = 0;
  int64_t failed_steps = 0;
  int64_t promoted = 0;
  int64_t cached_tokens = 0;
  int64_t common_blocks = 0;
  int64_t restored_states = 0;
  int64_t saved_states = 0;
  int64_t graph_steps = 0;
  int64_t steps_ahead = 0;
  int64_t dropped_tokens = 0;
  uint64_t rejected_drafts = 0;
  uint64_t accepted_drafts = 0;
  int64_t uniform_draft_steps = 0;
};

/// Equal seeds give equal simulations.
Totals simulate(Scheduling scheduling, uint32_t num_seeds, int num_steps) {
  Totals totals;
  for (uint32_t seed = 0; seed < num_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed, scheduling);
    simulation.run(num_steps);
    totals.steps += simulation.num_steps();
    totals.preemptions += simulation.num_preemptions();
    totals.completed += simulation.num_completed();
    totals.aborted += simulation.num_aborted();
    totals.failed_steps += simulation.num_failed_steps();
    totals.promoted += simulation.num_promoted();
    totals.cached_tokens += simulation.num_cached_tokens();
    totals.common_blocks += simulation.num_common_blocks();
    totals.restored_states += simulation.num_restored_states();
    totals.saved_states += simulation.num_saved_states();
    totals.graph_steps += simulation.num_graph_steps();
    totals.steps_ahead += simulation.num_steps_ahead();
    totals.dropped_tokens += simulation.num_dropped_tokens();
    const speculative::SpeculationStats& speculation = simulation.speculation();
    totals.accepted_drafts += speculation.num_accepted_tokens;
    totals.rejected_drafts += speculation.num_draft_tokens - speculation.num_accepted_tokens;
    totals.uniform_draft_steps += simulation.num_uniform_draft_steps();
    if (::testing::Test::HasFailure()) break;
  }
  fmt::print(
      "{} steps, {} of them with graphs, {} scheduled ahead; {} requests completed, {} aborted; {} "
      "steps "
      "failed; {} preemptions, {} promotions; {} tokens found in the cache, {} dropped; {} drafts "
      "accepted, {} rejected, {} uniform steps with drafts; {} states saved, {} restored\n",
      totals.steps,
      totals.graph_steps,
      totals.steps_ahead,
      totals.completed,
      totals.aborted,
      totals.failed_steps,
      totals.preemptions,
      totals.promoted,
      totals.cached_tokens,
      totals.dropped_tokens,
      totals.accepted_drafts,
      totals.rejected_drafts,
      totals.uniform_draft_steps,
      totals.saved_states,
      totals.restored_states);
  return totals;
}

class SchedulerSimulation : public ::testing::TestWithParam<Scheduling> {};

TEST_P(SchedulerSimulation, keeps_every_invariant_under_random_load) {
  const Totals totals = simulate(GetParam(), /*num_seeds=*/60, /*num_steps=*/1000);
  // Checks that the simulation reaches the paths for which this test is written.
  EXPECT_GT(totals.preemptions, 1000);
  EXPECT_GT(totals.completed, 5000);
  EXPECT_GT(totals.aborted, 500);
  EXPECT_GT(totals.failed_steps, 100);
  EXPECT_GT(totals.promoted, 50);
  EXPECT_GT(totals.cached_tokens, 10'000);
  EXPECT_GT(totals.common_blocks, 300);
  EXPECT_GT(totals.graph_steps, 10'000);
  const bool is_async = GetParam() == Scheduling::async;
  EXPECT_EQ(totals.steps_ahead > 10'000, is_async);
  if (GetParam() != Scheduling::drafts) {
    EXPECT_EQ(totals.dropped_tokens > 1000, is_async);
  }
  const bool has_drafts = GetParam() == Scheduling::drafts;
  EXPECT_EQ(totals.accepted_drafts > 10'000, has_drafts);
  EXPECT_EQ(totals.rejected_drafts > 10'000, has_drafts);
  EXPECT_EQ(totals.uniform_draft_steps > 1000, has_drafts);
  EXPECT_GT(totals.saved_states, 1000);
  EXPECT_GT(totals.restored_states, 300);
}

// Run this after changes of the scheduler or the cache, with --gtest_also_run_disabled_tests.
TEST_P(SchedulerSimulation, DISABLED_of_a_million_steps) { (void)simulate(GetParam(), 1000, 1000); }

INSTANTIATE_TEST_SUITE_P(scheduling,
                         SchedulerSimulation,
                         ::testing::Values(Scheduling::sync, Scheduling::async, Scheduling::drafts),
                         [](const auto& param_info) {
                           switch (param_info.param) {
                             case Scheduling::sync:
                               return "sync";
                             case Scheduling::async:
                               return "async";
                             case Scheduling::drafts:
                               break;
                           }
                           return "drafts";
                         });

}  // namespace
}  // namespace reprise::scheduler
