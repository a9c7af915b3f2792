// Random arrivals, aborts and tiny caches against a model of the KV cache: what a step would read
// must be exactly what the request's own tokens wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/engine/scheduler.h"
#include "reprise/kv_cache/kv_cache_manager.h"

namespace reprise::engine {
namespace {

constexpr int kVocabSize = 64;
constexpr int32_t kEos = 0;

/// The next token as a function of all tokens so far: any scheduling must give the same output.
int32_t next_token(std::span<const int32_t> token_ids) {
  uint64_t hash = 1469598103934665603ULL;
  for (const int32_t id : token_ids) hash = (hash ^ static_cast<uint64_t>(id)) * 1099511628211ULL;
  return static_cast<int32_t>((hash >> 32) % kVocabSize);
}

/// What a slot of the cache holds: a key or value depends on its token, on all before it, and on
/// whom it may be shared with. 0: nothing.
using Slot = uint64_t;

class Simulation {
 public:
  explicit Simulation(uint32_t seed) : random_(seed) {
    config_.max_num_seqs = 1 + below(12);
    config_.max_num_batched_tokens = config_.max_num_seqs + below(80);
    config_.max_model_len = 20 + below(150);
    config_.eos_token_ids = {kEos};
    config_.vocab_size = kVocabSize;
    config_.scheduler_reserve_full_isl = below(3) != 0;
    config_.enable_chunked_prefill = below(4) != 0;
    const int block_size = 1 + below(20);
    const auto prefix_caching =
        below(4) == 0 ? kv_cache::PrefixCaching::off : kv_cache::PrefixCaching::on;
    const int num_blocks = 2 + (40 + below(400)) / block_size;  // tiny: preemption is usual
    cache_ = std::make_unique<kv_cache::KvCacheManager>(num_blocks, block_size, prefix_caching);
    if (!config_.enable_chunked_prefill) {
      config_.max_num_batched_tokens =
          std::max(config_.max_num_batched_tokens, config_.max_model_len);
    } else if (below(3) == 0) {
      config_.long_prefill_token_threshold = 1 + below(30);
    }
    scheduler_ = std::make_unique<Scheduler>(config_, *cache_);
    slots_.resize(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size));
  }

  void run(int num_steps_with_arrivals) {
    for (int step = 0; step < num_steps_with_arrivals && !::testing::Test::HasFatalFailure();
         ++step) {
      // Bursts and pauses.
      if (below(50) < (step / 100 % 2 == 0 ? 20 : 2)) arrive();
      if (below(40) == 0) abort_one();
      run_step();
    }
    if (::testing::Test::HasFatalFailure()) return;
    // Each step computes at least one token of the oldest request, so this ends.
    int num_left = 0;
    for (const auto& [id, live] : live_) num_left += 2 * live.request->max_total_tokens();
    for (int step = 0; scheduler_->has_unfinished_requests(); ++step) {
      ASSERT_LE(step, num_left) << "requests starve";
      run_step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(live_.empty());
    EXPECT_EQ(cache_->num_free_blocks(), cache_->num_blocks() - 1) << "leaked blocks";
  }

  [[nodiscard]] int64_t num_preemptions() const { return scheduler_->num_preemptions(); }
  [[nodiscard]] int num_completed() const { return num_completed_; }
  [[nodiscard]] int num_aborted() const { return num_aborted_; }
  [[nodiscard]] int64_t num_cached_tokens() const { return num_cached_tokens_; }

 private:
  struct Live {
    std::unique_ptr<Request> request;
    int num_computed = 0;         // contiguous since admission or the last preemption
    std::vector<Slot> contents = {};  // by position
    bool is_running = false;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

  void arrive() {
    const int max_prompt = scheduler_->max_model_len() - 1;
    std::vector<int32_t> prompt(
        static_cast<size_t>(1 + below(std::min(max_prompt, below(2) == 0 ? 8 : 1000))));
    // Few stems, so that prefixes are shared, and a tail of one's own.
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
    RequestOptions options;
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
      live_.erase(victim);  // destroyed: nothing may touch it again
    }
  }

  void run_step() {
    const SchedulerOutput& output = scheduler_->schedule();
    for (const Request* request : output.preempted) {
      EXPECT_EQ(request->status(), RequestStatus::preempted) << "admitted again in the same step";
      live_.at(request->id()).num_computed = 0;
      live_.at(request->id()).is_running = false;
    }
    check_batch(output);
    check_cache_owners();
    if (::testing::Test::HasFatalFailure()) return;
    const std::vector<sampling::SampledToken> sampled = compute(output);
    if (below(30) == 0) abort_one();  // while the step is in flight
    for (const RequestUpdate& update : scheduler_->update_from_output(sampled)) {
      if (update.finished) finish(*update.request);
    }
    check_cache_owners();
  }

  void check_batch(const SchedulerOutput& output) {
    ASSERT_EQ(output.empty(), live_.empty()) << "a step must move whenever there is work";
    ASSERT_LE(output.num_reqs(), config_.max_num_seqs);
    int total = 0;
    int num_samples = 0;
    int max_query_len = 0;
    bool any_prefill = false;
    bool has_oldest = live_.empty();
    for (const ScheduledRequest& entry : output.scheduled) {
      const Request& request = *entry.request;
      const int end = entry.num_computed_tokens + entry.num_scheduled_tokens;
      ASSERT_GE(entry.num_scheduled_tokens, 1);
      if (Live& live = live_.at(request.id()); !std::exchange(live.is_running, true)) {
        check_cached_prefix(entry);
        live.num_computed = entry.num_computed_tokens;
      }
      ASSERT_EQ(entry.num_computed_tokens, live_.at(request.id()).num_computed)
          << "a gap or a repeat";
      ASSERT_LE(end, request.num_tokens());
      ASSERT_EQ(entry.samples, end == request.num_tokens());
      ASSERT_EQ(entry.is_in_prefill, request.is_in_prefill());
      ASSERT_GE(static_cast<int>(request.block_ids().size()), cache_->blocks_for(end));
      ASSERT_LE(static_cast<int>(request.block_ids().size()),
                cache_->blocks_for(request.num_tokens()));
      if (config_.long_prefill_token_threshold > 0) {
        ASSERT_LE(entry.num_scheduled_tokens, config_.long_prefill_token_threshold);
      }
      if (!config_.enable_chunked_prefill) {
        ASSERT_TRUE(entry.samples);
      }
      total += entry.num_scheduled_tokens;
      num_samples += static_cast<int>(entry.samples);
      max_query_len = std::max(max_query_len, entry.num_scheduled_tokens);
      any_prefill |= entry.is_in_prefill;
      has_oldest |= request.id() == live_.begin()->first;
    }
    ASSERT_TRUE(has_oldest) << "the oldest request is part of every step";
    ASSERT_EQ(output.total_num_scheduled_tokens, total);
    ASSERT_LE(total, config_.max_num_batched_tokens);
    ASSERT_EQ(output.num_sampling_requests, num_samples);
    ASSERT_EQ(output.max_query_len, max_query_len);
    ASSERT_EQ(output.any_prefill, any_prefill);
    check_order(output);
  }

  /// Of a request that was admitted; that the content is its own, compute() sees.
  void check_cached_prefix(const ScheduledRequest& entry) {
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

  static void check_order(const SchedulerOutput& output) {
    for (size_t i = 1; i < output.scheduled.size(); ++i) {
      const ScheduledRequest& a = output.scheduled[i - 1];
      const ScheduledRequest& b = output.scheduled[i];
      const auto is_decode = [](const ScheduledRequest& entry) {
        return !entry.is_in_prefill && entry.num_scheduled_tokens == 1;
      };
      ASSERT_TRUE(is_decode(a) || !is_decode(b)) << "decodes come first";
      if (is_decode(a) == is_decode(b)) {
        ASSERT_LE(a.num_scheduled_tokens, b.num_scheduled_tokens) << "then shorter ones";
      }
    }
  }

  /// Writes the step's tokens through the block tables, then reads back every request's context.
  std::vector<sampling::SampledToken> compute(const SchedulerOutput& output) {
    for (const ScheduledRequest& entry : output.scheduled) {
      for (int i = 0; i < entry.num_scheduled_tokens; ++i) {
        const int position = entry.num_computed_tokens + i;
        slot(*entry.request, position) = wanted(*entry.request, position);
      }
      live_.at(entry.request->id()).num_computed += entry.num_scheduled_tokens;
    }
    std::vector<sampling::SampledToken> sampled;
    for (const ScheduledRequest& entry : output.scheduled) {
      const Request& request = *entry.request;
      for (int i = 0; i < entry.num_computed_tokens + entry.num_scheduled_tokens; ++i) {
        EXPECT_EQ(slot(request, i), wanted(request, i)) << "someone else wrote into a live block";
      }
      if (entry.samples) sampled.push_back({.token_id = next_token(request.token_ids())});
    }
    return sampled;
  }

  Slot& slot(const Request& request, int position) {
    const auto block = static_cast<size_t>(
        request.block_ids()[static_cast<size_t>(position / cache_->block_size())]);
    const auto size = static_cast<size_t>(cache_->block_size());
    return slots_[block * size + static_cast<size_t>(position) % size];
  }

  Slot wanted(const Request& request, int position) {
    std::vector<Slot>& contents = live_.at(request.id()).contents;
    while (contents.size() <= static_cast<size_t>(position)) {
      const Slot before =
          contents.empty() ? std::hash<std::string_view>{}(request.cache_salt()) : contents.back();
      const auto token = static_cast<uint64_t>(request.token_ids()[contents.size()]);
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
      EXPECT_EQ(live.num_computed, request.num_tokens() - 1);
      EXPECT_EQ(request.num_computed_tokens(), request.num_tokens() - 1);
      check_output(request);
    }
    live_.erase(request.id());
  }

  /// The output of a run alone, by the definition of the stop rules.
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
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Slot> slots_;
  std::map<RequestId, Live> live_;  // oldest first
  uint64_t next_id_ = 0;
  int num_completed_ = 0;
  int num_aborted_ = 0;
  int64_t num_cached_tokens_ = 0;
};

TEST(SchedulerSimulation, keeps_every_invariant_under_random_load) {
  int64_t num_preemptions = 0;
  int num_completed = 0;
  int num_aborted = 0;
  int64_t num_cached_tokens = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run(/*num_steps_with_arrivals=*/1000);
    num_preemptions += simulation.num_preemptions();
    num_completed += simulation.num_completed();
    num_aborted += simulation.num_aborted();
    num_cached_tokens += simulation.num_cached_tokens();
    if (HasFailure()) return;
  }
  // The load must really reach the paths that it is there for.
  EXPECT_GT(num_preemptions, 1000);
  EXPECT_GT(num_completed, 5000);
  EXPECT_GT(num_aborted, 500);
  EXPECT_GT(num_cached_tokens, 20'000);
  RecordProperty("preemptions", std::to_string(num_preemptions));
  RecordProperty("completed", num_completed);
}

}  // namespace
}  // namespace reprise::engine
