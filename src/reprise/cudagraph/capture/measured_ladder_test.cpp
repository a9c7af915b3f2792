#include "reprise/cudagraph/capture/measured_ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "reprise/cudagraph/graph_key.h"
#include "reprise/device/error.h"

// The clock of these tests is a sum of made-up costs, so the tests know which keys pay.
namespace reprise::cudagraph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Sizes = std::vector<int32_t>;
using Cost = std::function<double(int32_t tokens)>;  // microseconds of a run with this many tokens

/// The cost counts whole tiles of 8 tokens.
double in_tiles(int32_t tokens) { return 100 + 10 * std::ceil(tokens / 8.0); }
double with_each_token(int32_t tokens) { return 100 + 10.0 * tokens; }

Sizes up_to(int32_t most) {
  Sizes sizes;
  for (int32_t n = 1; n <= most; ++n) sizes.push_back(n);
  return sizes;
}

class Machine {
 public:
  Machine(CudagraphMode mode, const Sizes& mixed, const Sizes& decode, int32_t query_len = 1) {
    dispatcher_.initialize_cudagraph_keys({.mode = mode,
                                           .rule = CaptureSizeRule::measured,
                                           .uniform_decode_query_len = query_len,
                                           .max_num_seqs = 64,
                                           .mixed_capture_sizes = mixed,
                                           .decode_capture_sizes = decode});
  }

  LadderReport measure() {
    return measure_ladders(
        dispatcher_,
        permission_,
        {.capture =
             [this](const PlannedKey& key) {
               EXPECT_TRUE(permission_.is_open());
               if (on_capture) on_capture(key);
               graphs_.insert(graph_key_text(key.mode, key.descriptor));
               num_captures_ += 1;
             },
         .forget =
             [this](const PlannedKey& key) {
               graphs_.erase(graph_key_text(key.mode, key.descriptor));
             },
         .time = [this](const BatchFacts& batch,
                        const Decision& decision) { return time(batch, decision); },
         .now = [this] { return seconds_; }});
  }

  [[nodiscard]] Sizes planned(CudagraphRuntimeMode mode, bool uniform) const {
    Sizes sizes;
    for (const CaptureGroup& group : dispatcher_.capture_plan()) {
      if (group.mode != mode || group.uniform != uniform) continue;
      for (const BatchDescriptor& d : group.descriptors) sizes.insert(sizes.begin(), d.num_tokens);
    }
    return sizes;
  }
  [[nodiscard]] Sizes decode_sizes() const { return planned(CudagraphRuntimeMode::FULL, true); }
  [[nodiscard]] Sizes pieces() const { return planned(CudagraphRuntimeMode::PIECEWISE, false); }
  [[nodiscard]] std::string reason_of(int32_t tokens, CudagraphRuntimeMode mode) const {
    for (const KeyStatus& status : dispatcher_.key_states()) {
      if (status.key.mode == mode && status.key.descriptor.num_tokens == tokens)
        return status.reason;
    }
    return "no such key";
  }
  [[nodiscard]] CudagraphDispatcher& dispatcher() { return dispatcher_; }
  [[nodiscard]] const std::set<std::string>& graphs() const { return graphs_; }
  [[nodiscard]] int num_captures() const { return num_captures_; }

  Cost full = with_each_token;
  Cost piecewise = with_each_token;
  Cost eager = [](int32_t tokens) { return 50 + with_each_token(tokens); };
  /// Factors on the costs of successive runs.
  std::function<double()> noise = [] { return 1.0; };
  std::function<void(const PlannedKey&)> on_capture;

 private:
  double time(const BatchFacts& batch, const Decision& decision) {
    EXPECT_GE(decision.descriptor.num_tokens, batch.num_tokens);
    const bool has_graph = graphs_.contains(graph_key_text(decision.mode, decision.descriptor));
    EXPECT_TRUE(decision.mode == CudagraphRuntimeMode::NONE || has_graph);
    const Cost& cost = decision.mode == CudagraphRuntimeMode::FULL        ? full
                       : decision.mode == CudagraphRuntimeMode::PIECEWISE ? piecewise
                                                                          : eager;
    const double microseconds = cost(decision.descriptor.num_tokens) * noise();
    seconds_ += microseconds * 1e-6;
    return microseconds;
  }

  CudagraphDispatcher dispatcher_;
  CapturePermission permission_;
  std::set<std::string> graphs_;
  int num_captures_ = 0;
  double seconds_ = 0;
};

/// The sizes to keep, by their definition: the largest size that pays against `other`; then,
/// downwards, each size that pays against the next larger kept one.
Sizes expected(const Sizes& sizes, const Cost& graph, const Cost& other) {
  size_t end = sizes.size();
  while (end > 0 && graph(sizes[end - 1]) > 0.99 * other(sizes[end - 1])) --end;
  Sizes kept;
  for (size_t i = end; i-- > 0;) {
    if (kept.empty() || graph(sizes[i]) <= 0.99 * graph(kept.front()))
      kept.insert(kept.begin(), sizes[i]);
  }
  return kept;
}

TEST(MeasuredLadder, keeps_one_key_for_each_tile_where_padding_within_a_tile_is_free) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(30));
  machine.full = in_tiles;
  machine.eager = [](int32_t tokens) { return 2 * in_tiles(tokens); };
  const LadderReport report = machine.measure();
  EXPECT_THAT(machine.decode_sizes(), ElementsAre(8, 16, 24, 30));
  EXPECT_EQ(report.keys.size(), 30U);
  EXPECT_EQ(report.num_kept(), 4U);
  EXPECT_THAT(machine.reason_of(20, CudagraphRuntimeMode::FULL),
              StartsWith("saves 0.0 % against the FULL key of 24 requests: 130 us, 130 us"));
}

TEST(MeasuredLadder, keeps_every_size_where_each_token_costs) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(30));
  (void)machine.measure();
  EXPECT_EQ(machine.decode_sizes(), up_to(30));
}

TEST(MeasuredLadder, keeps_one_key_where_all_sizes_cost_the_same) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(32));
  machine.full = [](int32_t tokens) { return 1000 + 0.1 * tokens; };
  machine.eager = [](int32_t) { return 2000.0; };
  (void)machine.measure();
  EXPECT_THAT(machine.decode_sizes(), ElementsAre(32));
}

TEST(MeasuredLadder, keeps_a_key_that_saves_one_percent_and_no_key_that_saves_less) {
  for (const double saved : {0.0102, 0.0098}) {
    Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, {4, 8});
    machine.full = [saved](int32_t tokens) { return tokens == 8 ? 1000 : 1000 * (1 - saved); };
    machine.eager = [](int32_t) { return 1500.0; };
    (void)machine.measure();
    EXPECT_EQ(machine.decode_sizes(), saved > 0.01 ? (Sizes{4, 8}) : (Sizes{8}));
  }
}

TEST(MeasuredLadder, ends_where_a_graph_saves_nothing_against_an_eager_step) {
  for (int32_t most = 0; most <= 64; ++most) {
    Machine machine(CudagraphMode::PIECEWISE, up_to(64), {});
    machine.eager = [most](int32_t tokens) {
      return (tokens <= most ? 1.2 : 1.0) * with_each_token(tokens);
    };
    (void)machine.measure();
    EXPECT_EQ(machine.pieces(), up_to(most)) << most;
    EXPECT_EQ(machine.dispatcher().largest_size(), most);
    if (most == 64) continue;
    EXPECT_THAT(machine.reason_of(64, CudagraphRuntimeMode::PIECEWISE),
                StartsWith("is larger than all sizes that pay: the key of "));
  }
}

TEST(MeasuredLadder, drops_decode_keys_that_save_nothing_against_pieces) {
  Machine machine(CudagraphMode::FULL_AND_PIECEWISE, up_to(32), up_to(32));
  // Attention in a graph saves something up to 10 requests.
  machine.full = [](int32_t tokens) { return with_each_token(tokens) - (tokens <= 10 ? 20 : 0); };
  (void)machine.measure();
  EXPECT_EQ(machine.pieces(), up_to(32));
  EXPECT_EQ(machine.decode_sizes(), up_to(10));
  const BatchFacts batch{.num_tokens = 11, .num_reqs = 11, .uniform = true};
  machine.dispatcher().mark_all_captured();
  EXPECT_EQ(machine.dispatcher().dispatch(batch).mode, CudagraphRuntimeMode::PIECEWISE);
}

TEST(MeasuredLadder, agrees_with_its_definition_for_random_costs) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    Sizes sizes;
    for (int32_t n = 1; n <= 60; ++n) {
      if (random() % 3 != 0) sizes.push_back(n);
    }
    std::vector<double> costs = {0};
    for (int32_t n = 1; n <= 60; ++n) {
      const bool is_step = random() % 4 == 0;
      costs.push_back((n == 1 ? 300 : costs.back()) *
                      (is_step ? 1.0 + static_cast<double>(random() % 80) / 1000.0 : 1));
    }
    // The share of launches falls with the size.
    const double launches = 10.0 * static_cast<double>(random() % 5);
    const Cost graph = [&](int32_t tokens) { return costs[static_cast<size_t>(tokens)]; };
    const Cost eager = [&](int32_t tokens) { return graph(tokens) + launches; };
    Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, sizes);
    machine.full = graph;
    machine.eager = eager;
    (void)machine.measure();
    EXPECT_EQ(machine.decode_sizes(), expected(sizes, graph, eager)) << round;
  }
}

TEST(MeasuredLadder, is_the_same_on_a_noisy_machine) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(32));
    machine.full = in_tiles;
    machine.eager = [](int32_t tokens) { return 1.5 * in_tiles(tokens); };
    // Each run is up to 1 % slower, and one of six takes twice as long.
    machine.noise = [&] {
      return (1 + 1e-5 * static_cast<double>(random() % 1000)) * (random() % 6 == 0 ? 2.0 : 1.0);
    };
    (void)machine.measure();
    EXPECT_THAT(machine.decode_sizes(), ElementsAre(8, 16, 24, 32)) << round;
  }
}

TEST(MeasuredLadder, is_nearly_the_same_on_a_machine_that_disturbs_half_of_the_runs) {
  std::mt19937 random(5);
  size_t num_wrong = 0;
  for (int round = 0; round < 50; ++round) {
    Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(32));
    machine.full = in_tiles;
    machine.eager = [](int32_t tokens) { return 1.5 * in_tiles(tokens); };
    machine.noise = [&] {
      return random() % 2 == 0 ? 1.0 : 1.2 + 0.01 * static_cast<double>(random() % 1000);
    };
    (void)machine.measure();
    for (const int32_t size : up_to(32)) {
      const bool is_kept = std::ranges::count(machine.decode_sizes(), size) > 0;
      if (is_kept != (size % 8 == 0)) ++num_wrong;
    }
  }
  // 50 rounds decide about 1,600 keys. With medians, some 200 decisions would be wrong.
  EXPECT_LT(num_wrong, 60U);
}

TEST(MeasuredLadder, times_undecided_pairs_until_their_least_times_decide) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, {8});
  machine.full = [](int32_t) { return 98.0; };
  machine.eager = [](int32_t) { return 100.0; };
  // Every second replay is disturbed, so rounds that pay and rounds that do not alternate, while
  // the least times pay.
  size_t run = 0;
  machine.noise = [&run] { return std::array{1.0, 1.05, 1.0, 1.0}[run++ % 4]; };
  const LadderReport report = machine.measure();
  EXPECT_EQ(report.num_runs, 2U * 2U * 21U) << "the search and the walk, 21 rounds of two runs";
  EXPECT_EQ(report.num_kept(), 1U);
}

TEST(MeasuredLadder, ends_a_comparison_when_five_rounds_agree) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, {8});
  const LadderReport report = machine.measure();
  EXPECT_EQ(report.num_runs, 2U * 2U * 5U) << "the search and the walk";
}

TEST(MeasuredLadder, leaves_no_graph_and_a_plan_of_the_keys_that_pay) {
  Machine machine(CudagraphMode::FULL_AND_PIECEWISE, up_to(32), up_to(32));
  machine.full = in_tiles;
  machine.piecewise = [](int32_t tokens) { return in_tiles(tokens) + 20; };
  machine.eager = [](int32_t tokens) { return in_tiles(tokens) + 90; };
  const LadderReport report = machine.measure();
  EXPECT_THAT(machine.graphs(), IsEmpty());
  size_t num_planned = 0;
  for (const KeyStatus& status : machine.dispatcher().key_states()) {
    EXPECT_TRUE(status.state == KeyState::planned || status.state == KeyState::dropped);
    EXPECT_EQ(status.reason.empty(), status.state == KeyState::planned);
    if (status.state == KeyState::planned) ++num_planned;
  }
  EXPECT_EQ(num_planned, 8U);
  EXPECT_EQ(report.num_kept(), 8U);
  EXPECT_THAT(report.describe(), StartsWith("8 of 64 keys pay; "));
}

TEST(MeasuredLadder, measures_each_width_of_decode_batches_alone) {
  CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(
      {.mode = CudagraphMode::FULL_DECODE_ONLY,
       .rule = CaptureSizeRule::measured,
       .uniform_decode_query_len = 4,
       .max_num_seqs = 64,
       .decode_capture_sizes = {4, 8, 16, 32},
       .other_decode_widths = {{.query_len = 1, .capture_sizes = {1, 2, 4, 8}}}});
  CapturePermission permission;
  // Steps without drafts cost the same for any number of requests; the cost of other steps depends
  // on their tokens.
  const LadderReport report = measure_ladders(
      dispatcher,
      permission,
      {.capture = [](const PlannedKey&) {},
       .forget = [](const PlannedKey&) {},
       .time =
           [](const BatchFacts& batch, const Decision& decision) {
             EXPECT_EQ(batch.num_tokens, batch.num_reqs * batch.query_len);
             if (decision.mode == CudagraphRuntimeMode::NONE) return 5000.0;
             return batch.query_len == 1 ? 100.0 : with_each_token(decision.descriptor.num_tokens);
           },
       .now = [] { return 0.0; }});
  EXPECT_EQ(report.num_kept(), 5U);
  dispatcher.mark_all_captured();
  EXPECT_EQ(dispatcher.dispatch({.num_tokens = 3, .num_reqs = 3, .uniform = true, .query_len = 1})
                .descriptor.num_reqs,
            8);
  EXPECT_EQ(dispatcher.dispatch({.num_tokens = 8, .num_reqs = 2, .uniform = true, .query_len = 4})
                .descriptor.num_reqs,
            2);
}

TEST(MeasuredLadder, drops_a_key_that_has_no_room_in_memory) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(16));
  machine.on_capture = [](const PlannedKey& key) {
    if (key.descriptor.num_tokens > 11) throw OutOfMemory("pool: no memory is left");
  };
  (void)machine.measure();
  EXPECT_EQ(machine.decode_sizes(), up_to(11));
  EXPECT_THAT(machine.graphs(), IsEmpty());
}

TEST(MeasuredLadder, leaves_a_key_that_cannot_be_captured_to_the_capture_session) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(16));
  machine.on_capture = [](const PlannedKey& key) {
    if (key.descriptor.num_tokens == 5) throw device::CaptureError("an op waits for the device");
  };
  const LadderReport report = machine.measure();
  EXPECT_EQ(machine.decode_sizes(), up_to(16)) << "the session retires it with the error";
  EXPECT_EQ(report.keys.size(), 15U);
}

TEST(MeasuredLadder, throws_when_the_device_is_lost) {
  Machine machine(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(4));
  machine.on_capture = [](const PlannedKey&) {
    throw device::DeviceError("lost", device::DeviceError::Severity::sticky);
  };
  EXPECT_THROW((void)machine.measure(), device::DeviceError);
}

TEST(MeasuredLadder, does_not_time_large_sizes_of_a_slow_device) {
  Machine machine(CudagraphMode::FULL_AND_PIECEWISE, up_to(64), up_to(64));
  machine.piecewise = [](int32_t tokens) { return 1e6 * tokens; };  // a second for each token
  machine.full = machine.piecewise;
  machine.eager = [](int32_t tokens) { return 1.2e6 * tokens; };
  const LadderReport report = machine.measure();
  EXPECT_LT(report.seconds, 150) << "two minutes, and what a comparison took longer than expected";
  const Sizes kept = machine.pieces();
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.front(), 1);
  EXPECT_EQ(kept.back(), 64);
  for (size_t i = 1; i < kept.size(); ++i) {
    EXPECT_LE(kept[i] - kept[i - 1], std::max(1, kept[i] / 8 + 1)) << "padding stays bounded";
  }
}

TEST(MeasuredLadder, of_a_first_start_holds_for_the_second_one) {
  Machine first(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(30));
  first.full = in_tiles;
  first.eager = [](int32_t tokens) { return 2 * in_tiles(tokens); };
  const LadderReport report = first.measure();
  Machine second(CudagraphMode::FULL_DECODE_ONLY, {}, up_to(30));
  drop_measured(second.dispatcher(), report);
  EXPECT_EQ(second.decode_sizes(), first.decode_sizes());
  EXPECT_EQ(second.reason_of(20, CudagraphRuntimeMode::FULL),
            first.reason_of(20, CudagraphRuntimeMode::FULL));
}

}  // namespace
}  // namespace reprise::cudagraph
