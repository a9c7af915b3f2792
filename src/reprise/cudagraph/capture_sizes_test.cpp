#include "reprise/cudagraph/capture_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"

// Rows of groups SIZ, DVS, DVA and ATM of the behaviour reference that other tests cover:
//   SIZ-16, SIZ-18, SIZ-19          resolution_test (mode and splitting only; the compiler chooses
//                                   the end 511 of a compile range)
//   SIZ-20, SIZ-23, SIZ-26, SIZ-27  resolution_test
//   SIZ-28 .. SIZ-31                compilation_config_test

namespace reprise::cudagraph {
namespace {

using Sizes = std::vector<int32_t>;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// The automatic sizes in tokens. The behaviour reference gives only the first and last sizes and
// their number.
Sizes grid(int32_t max) {
  Sizes sizes;
  for (int32_t n : {1, 2, 4}) {
    if (n <= max) sizes.push_back(n);
  }
  for (int32_t n = 8; n <= max; n += n < 256 ? 8 : 16) sizes.push_back(n);
  return sizes;
}

enum class Warns : uint8_t { nothing, truncating, removed, overridden, removed_and_overridden };

struct SizeRow {
  std::string id;
  CaptureSizeInputs in;
  std::optional<int32_t> user_max;
  std::optional<Sizes> user_list;
  std::optional<Sizes> expected;  // unset = InvalidArgument
  Warns warns = Warns::nothing;
};

Sizes interactive(int32_t max) {
  Sizes sizes;
  for (int32_t n = 1; n <= std::min(max, 32); ++n) sizes.push_back(n);
  for (int32_t n : grid(max)) {
    if (n > 32) sizes.push_back(n);
  }
  return sizes;
}

Sizes steps(int32_t first, int32_t last, int32_t step) {
  Sizes sizes;
  for (int32_t n = first; n <= last; n += step) sizes.push_back(n);
  return sizes;
}

Sizes with(Sizes sizes, int32_t extra) {
  sizes.push_back(extra);
  return sizes;
}

CaptureSizeInputs in(int32_t max_num_seqs, int32_t budget, int32_t q = 1) {
  return {.max_num_seqs = max_num_seqs,
          .max_num_batched_tokens = budget,
          .uniform_decode_query_len = q};
}

CaptureSizeInputs with_sp(CaptureSizeInputs inputs, int32_t tensor_parallel_size) {
  inputs.tensor_parallel_size = tensor_parallel_size;
  inputs.sequence_parallelism = true;
  return inputs;
}

CaptureSizeInputs on_family_100(CaptureSizeInputs inputs) {
  inputs.default_max_capture_size = 1024;
  return inputs;
}

CaptureSizeInputs interactivity(CaptureSizeInputs inputs) {
  inputs.performance_mode = PerformanceMode::interactivity;
  return inputs;
}

std::vector<SizeRow> vllm_rows() {
  const std::nullopt_t none = std::nullopt;
  const auto list = [](Sizes sizes) { return std::optional<Sizes>(std::move(sizes)); };
  return {
      {"SIZ-01", in(128, 2048), none, none, grid(256)},
      {"SIZ-02", in(128, 2048), 4, list({1, 2, 4}), list({1, 2, 4})},
      {"SIZ-07", in(128, 2048), 257, none, grid(256), Warns::truncating},
      {"SIZ-09", in(128, 2048), none, list({1, 2, 4, 15}), list({1, 2, 4, 15})},
      {"SIZ-10",
       with_sp(in(128, 2048), 2),
       none,
       list({1, 2, 4, 15}),
       list({2, 4}),
       Warns::removed_and_overridden},
      {"SIZ-11", in(8, 8), none, list({1, 2, 4, 15}), list({1, 2, 4}), Warns::overridden},
      {"SIZ-12", in(128, 2048), none, list({}), none},
      {"SIZ-14", in(512, 2048), none, none, grid(512)},
      {"SIZ-15", on_family_100(in(512, 2048)), none, none, grid(1024)},
      {"DVS-01", in(7, 8), none, none, list({1, 2, 4, 8})},
      {"DVS-02", in(5, 2048), none, none, list({1, 2, 4, 8})},
      {"DVS-03", in(1, 1), none, none, list({1})},
      {"DVS-05", in(127, 8192), none, none, grid(248)},
      {"DVS-06", in(129, 8192), none, none, grid(256)},
      {"DVS-09", in(16, 8192, 3), none, none, grid(96)},
      {"DVS-11", on_family_100(in(2000, 1000)), none, none, with(grid(992), 1000)},
      {"DVS-12", interactivity(in(9, 4096)), none, none, steps(1, 18, 1)},
      {"DVS-13", interactivity(in(300, 8192)), none, none, interactive(512)},
      {"DVS-14", in(64, 8192), 64, none, grid(64)},
      {"DVS-15", in(64, 8192), 63, none, grid(56), Warns::truncating},
      {"DVS-19", with_sp(in(64, 100), 8), none, none, steps(8, 96, 8), Warns::removed},
      {"DVS-22",
       with_sp(in(64, 4096), 4),
       none,
       list({1, 2, 3}),
       list({}),
       Warns::removed_and_overridden},
      {"DVS-23", in(4, 64), none, list({16, 64, 128}), list({16, 64}), Warns::overridden},
      {"DVS-24", in(4, 64), none, list({128}), list({}), Warns::overridden},
      {"DVS-25", in(64, 4096), 64, list({4, 8, 64}), list({4, 8, 64})},
      {"DVS-26", in(64, 32), 64, list({4, 8, 64}), none},
      {"DVS-28", in(33, 70, 2), none, none, with(grid(64), 70)},
      {"DVS-29", in(256, 8192), 1000, none, grid(992), Warns::truncating},
      {"DVS-30", in(256, 8192), 255, none, grid(248), Warns::truncating},
      {"DVS-32", in(256, 8192), 263, none, grid(256), Warns::truncating},
      {"DVS-33", in(1, 8192, 6), none, none, list({1, 2, 4, 8})},
  };
}

// The examples of the behaviour reference.
std::vector<SizeRow> rows_of_examples() {
  const std::nullopt_t none = std::nullopt;
  const auto list = [](Sizes sizes) { return std::optional<Sizes>(std::move(sizes)); };
  return {
      {"3.2 S=256", in(256, 8192), none, none, grid(512)},
      {"3.2 S=1024", on_family_100(in(1024, 8192)), none, none, grid(1024)},
      {"3.2 S=1", in(1, 2048), none, none, list({1, 2})},
      {"3.2 S=3", in(3, 2048), none, none, list({1, 2, 4})},
      {"3.2 S=12", in(12, 2048), none, none, list({1, 2, 4, 8, 16, 24})},
      {"3.2 S=100", in(100, 8192), none, none, grid(200)},
      {"3.2 T=100", in(64, 100), none, none, with(grid(96), 100)},
      {"3.2 interactivity", interactivity(in(96, 4096)), none, none, interactive(192)},
      {"3.2 q=17", in(32, 8192, 17), none, none, grid(512)},
      {"3.2 user max 30", in(10, 4096), 30, none, list({1, 2, 4, 8, 16, 24}), Warns::truncating},
      {"3.2 TP 4 + SP",
       with_sp(in(256, 8192), 4),
       none,
       none,
       [] {
         Sizes sizes = grid(512);
         std::erase_if(sizes, [](int32_t n) { return n % 4 != 0; });
         return sizes;
       }(),
       Warns::removed},
      {"3.2 user list",
       in(64, 2048),
       none,
       list({24, 3, 3, 48}),
       list({3, 24, 48}),
       Warns::overridden},
  };
}

CaptureSizeRequest config_of(CaptureSizeRule rule,
                             std::optional<int32_t> max = std::nullopt,
                             std::optional<Sizes> list = std::nullopt) {
  CaptureSizeRequest config;
  config.capture_size_rule = rule;
  config.max_cudagraph_capture_size = max;
  config.cudagraph_capture_sizes = std::move(list);
  return config;
}

TEST(CaptureSizesVllm, reproduces_every_reference_vector_with_its_warnings) {
  std::vector<SizeRow> rows = vllm_rows();
  std::ranges::move(rows_of_examples(), std::back_inserter(rows));
  for (const SizeRow& row : rows) {
    SCOPED_TRACE(row.id);
    const CaptureSizeRequest config =
        config_of(CaptureSizeRule::vllm_v1, row.user_max, row.user_list);
    if (!row.expected) {
      EXPECT_THROW((void)compute_capture_sizes(config, row.in, CudagraphMode::FULL_AND_PIECEWISE),
                   InvalidArgument);
      continue;
    }
    const CaptureSizes sizes =
        compute_capture_sizes(config, row.in, CudagraphMode::FULL_AND_PIECEWISE);
    EXPECT_EQ(sizes.mixed, *row.expected);
    const std::string warnings = fmt::format("{}", fmt::join(sizes.warnings, "\n"));
    const auto warned = [&](std::string_view word) {
      return warnings.find(word) != std::string::npos;
    };
    const bool both = row.warns == Warns::removed_and_overridden;
    EXPECT_EQ(warned("truncating"), row.warns == Warns::truncating) << warnings;
    EXPECT_EQ(warned("removed "), row.warns == Warns::removed || both) << warnings;
    EXPECT_EQ(warned("overridden"), row.warns == Warns::overridden || both) << warnings;
  }
}

TEST(CaptureSizesVllm, counts_of_the_worked_examples_agree) {
  EXPECT_EQ(grid(512).size(), 51U);
  EXPECT_EQ(grid(1024).size(), 83U);
  EXPECT_EQ(grid(200).size(), 28U);
  EXPECT_EQ(grid(248).size(), 34U);
  EXPECT_EQ(interactive(192).size(), 52U);
  EXPECT_EQ(interactive(512).size(), 76U);
  // For 256 requests there are 51 mixed descriptors and 35 FULL decode graphs.
  const CaptureSizes sizes = compute_capture_sizes(
      config_of(CaptureSizeRule::vllm_v1), in(256, 8192), CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_EQ(sizes.mixed.size(), 51U);
  EXPECT_EQ(sizes.decode.size(), 35U);
}

// Rule vllm: what vLLM 0.32 changed. tests/oracle compares far more configurations.
TEST(CaptureSizesVllmV2, the_list_holds_max_num_seqs_and_speculative_decode_sizes) {
  const auto sizes_of = [](const CaptureSizeInputs& inputs, std::optional<int32_t> max = {}) {
    return compute_capture_sizes(
        config_of(CaptureSizeRule::vllm, max), inputs, CudagraphMode::FULL_AND_PIECEWISE);
  };
  EXPECT_EQ(sizes_of(in(3, 8192)).mixed, (Sizes{1, 2, 3, 4}));
  EXPECT_EQ(sizes_of(in(3, 8192)).decode, (Sizes{1, 2, 3}));
  EXPECT_EQ(sizes_of(in(3, 8192), 6).mixed, (Sizes{1, 2, 4})) << "an explicit maximum adds nothing";
  CaptureSizeInputs speculative = in(3, 8192);
  speculative.uniform_decode_query_len = 5;  // maximum 30; 1, 2 and 3 requests take 5, 10, 15
  EXPECT_EQ(sizes_of(speculative).mixed, (Sizes{1, 2, 4, 5, 8, 10, 15, 16, 24}));
  EXPECT_EQ(sizes_of(speculative).decode, (Sizes{5, 10, 15})) << "20 and 25 exceed three requests";
  speculative.max_num_batched_tokens = 12;
  EXPECT_EQ(sizes_of(speculative).mixed, (Sizes{1, 2, 4, 5, 8, 10, 12}));
  EXPECT_EQ(sizes_of(speculative).decode, (Sizes{5, 10})) << "15 exceeds the list's largest size";
}

TEST(CaptureSizes, mode_none_has_no_sizes_under_any_rule) {
  for (CaptureSizeRule rule :
       {CaptureSizeRule::reprise, CaptureSizeRule::vllm_v1, CaptureSizeRule::atom}) {
    const CaptureSizes sizes =
        compute_capture_sizes(config_of(rule, 0), in(128, 2048), CudagraphMode::NONE);  // SIZ-06
    EXPECT_TRUE(sizes.mixed.empty());
    EXPECT_TRUE(sizes.decode.empty());
    EXPECT_EQ(sizes.max_mixed(), 0);
  }
}

TEST(CaptureSizes, a_maximum_of_zero_with_graphs_on_is_refused) {
  for (CaptureSizeRule rule : {CaptureSizeRule::reprise, CaptureSizeRule::vllm_v1}) {
    EXPECT_THROW((void)compute_capture_sizes(config_of(rule, 0), in(8, 64), CudagraphMode::FULL),
                 InvalidArgument);
  }
}

TEST(CaptureSizes, the_older_knob_means_maximum_or_list) {
  CaptureSizeRequest config = config_of(CaptureSizeRule::vllm_v1);
  config.cuda_graph_sizes = Sizes{64};
  const CaptureSizes sizes = compute_capture_sizes(config, in(256, 8192), CudagraphMode::PIECEWISE);
  EXPECT_EQ(sizes.mixed, grid(64));
  ASSERT_EQ(sizes.warnings.size(), 1U);
  EXPECT_THAT(sizes.warnings[0], HasSubstr("\"max_cudagraph_capture_size\": 64"));
  config.cuda_graph_sizes = Sizes{3, 9};
  EXPECT_THAT(compute_capture_sizes(config, in(256, 8192), CudagraphMode::PIECEWISE).mixed,
              ElementsAre(3, 9));
  config.cudagraph_capture_sizes = Sizes{3};
  EXPECT_THROW((void)compute_capture_sizes(config, in(256, 8192), CudagraphMode::PIECEWISE),
               InvalidArgument);
}

struct RoundingRow {
  std::string id;
  Sizes sizes;
  int32_t q;
  int32_t tensor_parallel_size;
  bool sequence_parallelism;
  std::optional<Sizes> expected;
};

TEST(SpeculativeRounding, reproduces_every_reference_vector) {
  const std::vector<RoundingRow> rows = {
      {"DVA-01", {1, 2, 4, 8, 16, 24, 32}, 2, 1, false, Sizes{2, 4, 8, 16, 24, 32}},
      {"DVA-02", {1, 2, 4, 8, 16, 24, 32}, 4, 1, false, Sizes{4, 8, 16, 24, 32}},
      {"DVA-05", {1, 2, 4, 8}, 9, 1, false, std::nullopt},
      {"DVA-06", {1, 2, 4, 8}, 8, 1, false, Sizes{8}},
      {"DVA-07", {2, 4, 8, 16}, 2, 4, true, Sizes{4, 8, 16}},
      {"DVA-08", {2, 4, 8, 16}, 4, 2, true, Sizes{4, 8, 16}},
      {"DVA-10", {4, 8, 16, 32, 48, 64}, 6, 2, true, Sizes{6, 12, 18, 36, 48}},
      {"DVA-13", {3, 7, 11}, 3, 1, false, Sizes{3, 9}},
      {"DVA-14", {1, 2}, 2, 1, false, Sizes{2}},
      {"DVA-15", {256, 272, 288, 304}, 5, 1, false, Sizes{260, 275, 290}},
      {"3.4 a", {1, 2, 4, 8, 16, 24, 32, 40}, 3, 1, false, Sizes{3, 6, 9, 18, 24, 33}},
      {"3.4 b", {1, 2, 4, 8, 16}, 5, 1, false, Sizes{5, 10}},
      {"3.4 c", {4, 8, 12, 16}, 4, 2, true, Sizes{4, 8, 12, 16}},
      {"3.4 d", {4, 8, 12, 16}, 3, 2, true, std::nullopt},
      {"SIZ-26", steps(1, 16, 1), 4, 1, false, Sizes{4, 8, 12, 16}},
  };
  for (const RoundingRow& row : rows) {
    SCOPED_TRACE(row.id);
    const auto adjust = [&] {
      return adjust_sizes_for_spec_decode(
          row.sizes, row.q, row.tensor_parallel_size, row.sequence_parallelism);
    };
    if (row.expected) {
      EXPECT_EQ(adjust(), *row.expected);
    } else {
      EXPECT_THROW((void)adjust(), InvalidArgument);
    }
  }
}

TEST(LargestDecodeBatch, equals_what_a_greedy_admission_loop_admits) {  // ATM-02, -04, -05
  EXPECT_EQ(largest_decode_batch(256, 512, 4), 128);
  EXPECT_EQ(largest_decode_batch(256, 2, 4), 0);
  for (int32_t seqs : {1, 7, 128, 256}) {
    for (int32_t budget : {1, 4, 500, 512, 16384}) {
      for (int32_t q : {1, 4, 8}) {
        int32_t admitted = 0;
        int32_t left = budget;
        while (admitted < seqs && left >= q) {
          left -= q;
          ++admitted;
        }
        EXPECT_EQ(largest_decode_batch(seqs, budget, q), admitted);
      }
    }
  }
}

// From ATOM's compilation guide: the default sizes, explicit lists, and limits.
TEST(CaptureSizesAtom, entries_are_batch_sizes_and_tokens_are_entries_times_query_length) {
  CaptureSizeRequest config = config_of(CaptureSizeRule::atom);
  CaptureSizes sizes =
      compute_capture_sizes(config, in(512, 16384), CudagraphMode::FULL_DECODE_ONLY);
  EXPECT_TRUE(sizes.mixed.empty());
  EXPECT_EQ(sizes.decode.size(), 36U);  // 1 2 4 8 16 32 ... 512
  EXPECT_EQ(Sizes(sizes.decode.begin(), sizes.decode.begin() + 6), (Sizes{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(sizes.max_decode(), 512);

  config.cuda_graph_sizes = Sizes{4, 1, 2};
  sizes = compute_capture_sizes(config, in(512, 16384, 3), CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_THAT(sizes.decode, ElementsAre(3, 6, 12));
  EXPECT_THAT(sizes.mixed, ElementsAre(3, 6, 12));

  config.cudagraph_capture_sizes = Sizes{1, 2, 4, 8};  // overrides cuda_graph_sizes
  sizes = compute_capture_sizes(config, in(512, 16384), CudagraphMode::FULL_DECODE_ONLY);
  EXPECT_THAT(sizes.decode, ElementsAre(1, 2, 4, 8));
}

TEST(CaptureSizesAtom, sizes_the_scheduler_cannot_reach_are_dropped_and_something_must_remain) {
  const CaptureSizeRequest config = config_of(CaptureSizeRule::atom);
  const CaptureSizes sizes =
      compute_capture_sizes(config, in(256, 512, 4), CudagraphMode::FULL_DECODE_ONLY);
  EXPECT_EQ(sizes.max_decode(), 128 * 4);
  ASSERT_EQ(sizes.warnings.size(), 1U);
  EXPECT_THAT(sizes.warnings[0], HasSubstr("128"));
  EXPECT_THROW((void)compute_capture_sizes(config, in(256, 2, 4), CudagraphMode::FULL_DECODE_ONLY),
               InvalidArgument);
}

TEST(CaptureSizes, a_ceiling_of_full_graphs_leaves_the_pieces_above_it) {
  for (const CaptureSizeRule rule : {CaptureSizeRule::reprise,
                                     CaptureSizeRule::vllm,
                                     CaptureSizeRule::vllm_v1,
                                     CaptureSizeRule::atom}) {
    CaptureSizeRequest config = config_of(rule);
    const CaptureSizes all =
        compute_capture_sizes(config, in(256, 8192), CudagraphMode::FULL_AND_PIECEWISE);
    config.max_full_cudagraph_capture_size = 128;
    const CaptureSizes dual =
        compute_capture_sizes(config, in(256, 8192), CudagraphMode::FULL_AND_PIECEWISE);
    EXPECT_EQ(dual.max_decode(), 128) << to_string(rule);
    EXPECT_EQ(dual.mixed, all.mixed) << to_string(rule);
    EXPECT_EQ(dual.warnings, all.warnings);
    const CaptureSizes full = compute_capture_sizes(config, in(256, 8192), CudagraphMode::FULL);
    EXPECT_EQ(full.max_mixed(), 128);
    EXPECT_THAT(full.warnings, Contains(HasSubstr("run eagerly in mode FULL")));
    const CaptureSizes two_sets =
        compute_capture_sizes(config, in(256, 8192), CudagraphMode::FULL_AND_FULL);
    EXPECT_EQ(two_sets.max_mixed(), 128);
    EXPECT_EQ(two_sets.max_decode(), 128);
    EXPECT_THAT(two_sets.warnings, Contains(HasSubstr("run eagerly in mode FULL_AND_FULL")));
    const CaptureSizes none =
        compute_capture_sizes(config, in(256, 8192), CudagraphMode::PIECEWISE);
    EXPECT_THAT(none.warnings, Contains(HasSubstr("has no effect")));
  }
}

TEST(CaptureSizesReprise, keeps_the_token_grid_and_adds_a_request_ladder) {
  const CaptureSizes sizes = compute_capture_sizes(
      config_of(CaptureSizeRule::reprise), in(256, 8192), CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_EQ(sizes.mixed, grid(512));
  EXPECT_EQ(sizes.decode, grid(256));
  EXPECT_TRUE(sizes.warnings.empty());
}

TEST(CaptureSizesReprise, the_widest_decode_batch_is_always_a_rung) {  // NEW-02, -03, -04
  const auto decode = [](CaptureSizeInputs inputs, std::optional<int32_t> max = std::nullopt) {
    return compute_capture_sizes(
               config_of(CaptureSizeRule::reprise, max), inputs, CudagraphMode::FULL_AND_PIECEWISE)
        .decode;
  };
  EXPECT_EQ(decode(in(100, 8192)).back(), 100);
  EXPECT_EQ(decode(in(6, 8192, 7), 42).back(), 42);
  EXPECT_EQ(decode(in(32, 8192, 17)).back(), 544);
  EXPECT_EQ(decode(in(32, 8192, 17)).size(), 7U);  // requests 1 2 4 8 16 24 32, and no denser sizes
  EXPECT_EQ(decode(in(256, 512, 4)).back(), 512);  // 512 tokens allow 128 requests of 4 tokens
  EXPECT_TRUE(decode(in(256, 3, 4)).empty());
}

TEST(CaptureSizesReprise, the_decode_ladder_has_bounded_gaps_and_exact_multiples) {
  for (int32_t q : {1, 2, 3, 5, 7, 17}) {
    for (int32_t seqs = 1; seqs <= 3000; seqs += seqs < 300 ? 1 : 37) {
      for (int32_t budget : {64, 2048, 65536}) {
        const CaptureSizes sizes = compute_capture_sizes(config_of(CaptureSizeRule::reprise),
                                                         in(seqs, budget, q),
                                                         CudagraphMode::FULL_DECODE_ONLY);
        const int32_t widest = largest_decode_batch(seqs, budget, q);
        ASSERT_EQ(sizes.max_decode(), widest * q);
        int32_t previous = 0;
        for (int32_t tokens : sizes.decode) {
          ASSERT_EQ(tokens % q, 0);
          const int32_t reqs = tokens / q;
          const int32_t allowed =
              previous < 256
                  ? (previous < 4 ? std::max(1, previous) : 8)
                  : static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(previous)) / 16);
          ASSERT_GT(reqs, previous);
          ASSERT_LE(reqs - previous, allowed) << "after " << previous << " of " << seqs;
          previous = reqs;
        }
      }
    }
  }
}

TEST(CaptureSizesReprise, explicit_sizes_are_clipped_to_what_the_scheduler_can_reach) {
  CaptureSizes sizes =
      compute_capture_sizes(config_of(CaptureSizeRule::reprise, std::nullopt, Sizes{128, 16, 64}),
                            in(80, 100),
                            CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_THAT(sizes.mixed, ElementsAre(16, 64, 100));
  EXPECT_THAT(sizes.decode, ElementsAre(16, 64, 80));
  EXPECT_EQ(sizes.warnings.size(), 1U);

  sizes = compute_capture_sizes(
      config_of(CaptureSizeRule::reprise, std::nullopt, Sizes{2, 5, 8, 16, 24}),
      in(8, 4096, 3),
      CudagraphMode::FULL_AND_PIECEWISE);  // an example of the behaviour reference
  EXPECT_THAT(sizes.mixed, ElementsAre(2, 5, 8, 16, 24));
  EXPECT_THAT(sizes.decode, ElementsAre(3, 6, 9, 18, 24));
}

TEST(CaptureSizesReprise, an_explicit_maximum_is_itself_captured_and_limits_decode_with_a_warning) {
  const CaptureSizes sizes = compute_capture_sizes(
      config_of(CaptureSizeRule::reprise, 50), in(64, 8192), CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_EQ(sizes.mixed, with(grid(48), 50));
  EXPECT_EQ(sizes.decode, with(grid(48), 50));
  ASSERT_EQ(sizes.warnings.size(), 1U);
  EXPECT_THAT(sizes.warnings[0], HasSubstr("51 to 64 requests"));
}

TEST(CaptureSizesReprise, single_routine_modes_carry_the_token_grid_to_the_widest_decode_batch) {
  for (CudagraphMode mode : {CudagraphMode::FULL, CudagraphMode::PIECEWISE}) {
    const CaptureSizes sizes =
        compute_capture_sizes(config_of(CaptureSizeRule::reprise), in(1000, 65536), mode);
    EXPECT_TRUE(sizes.decode.empty());
    EXPECT_EQ(sizes.max_mixed(), 1000);
    EXPECT_EQ(compute_capture_sizes(config_of(CaptureSizeRule::reprise), in(32, 8192, 17), mode)
                  .max_mixed(),
              544);
  }
}

TEST(CaptureSizesMeasured, have_every_size_of_the_rule_reprise_and_sixteen_for_each_doubling) {
  for (const int32_t q : {1, 4}) {
    for (const int32_t seqs : {1, 7, 32, 33, 100, 256, 1000}) {
      for (const CudagraphMode mode : {CudagraphMode::FULL_AND_PIECEWISE, CudagraphMode::FULL}) {
        for (const int32_t budget : {8, 100, 4096}) {
          const auto of = [&](CaptureSizeRule rule) {
            return compute_capture_sizes(config_of(rule), in(seqs, budget, q), mode);
          };
          const CaptureSizes measured = of(CaptureSizeRule::measured);
          const CaptureSizes reprise = of(CaptureSizeRule::reprise);
          EXPECT_TRUE(std::ranges::includes(measured.mixed, reprise.mixed));
          EXPECT_TRUE(std::ranges::includes(measured.decode, reprise.decode));
          EXPECT_EQ(measured.max_mixed(), budget) << "the largest chunk of a prompt";
          EXPECT_EQ(measured.max_decode(), reprise.max_decode());
          for (const Sizes* sizes : {&measured.mixed, &measured.decode}) {
            const int32_t unit = sizes == &measured.decode ? q : 1;
            for (size_t i = 1; i < sizes->size(); ++i) {
              const int32_t before = (*sizes)[i - 1] / unit;
              EXPECT_LE((*sizes)[i] / unit - before, std::max(1, before / 16));
            }
          }
        }
      }
    }
  }
}

TEST(CaptureSizesMeasured, a_list_or_a_maximum_of_the_user_bounds_the_candidates) {
  const CaptureSizes of_maximum = compute_capture_sizes(
      config_of(CaptureSizeRule::measured, 10), in(64, 8192), CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_THAT(of_maximum.mixed, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(of_maximum.decode, of_maximum.mixed);
  const CaptureSizes of_list =
      compute_capture_sizes(config_of(CaptureSizeRule::measured, std::nullopt, Sizes{4, 9}),
                            in(64, 8192),
                            CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_THAT(of_list.mixed, ElementsAre(4, 9));
}

TEST(CaptureSizesReprise, list_and_maximum_that_disagree_are_refused_naming_both) {
  try {
    (void)compute_capture_sizes(config_of(CaptureSizeRule::reprise, 32, Sizes{1, 2, 16}),
                                in(64, 4096),
                                CudagraphMode::FULL);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudagraph_capture_sizes"));
    EXPECT_THAT(error.what(), HasSubstr("max_cudagraph_capture_size"));
  }
}

TEST(CaptureSizes, inputs_out_of_range_are_refused) {
  const CaptureSizeRequest config;
  for (const CaptureSizeInputs& bad :
       {in(0, 64), in(8, 0), in(8, 64, 0), in(INT32_MAX, 64), in(8, 64, INT32_MAX)}) {
    EXPECT_THROW((void)compute_capture_sizes(config, bad, CudagraphMode::FULL), InvalidArgument);
  }
}

TEST(PaddingTable, is_the_smallest_size_that_fits_monotone_and_idempotent) {
  for (const Sizes& sizes : {grid(512), Sizes{1, 4, 8}, Sizes{6}, Sizes{}, Sizes{3, 7, 11}}) {
    const PaddingTable table(sizes);
    EXPECT_EQ(table.max(), sizes.empty() ? 0 : sizes.back());
    int32_t previous = 0;
    for (int32_t n = 0; n <= table.max() && !sizes.empty(); ++n) {
      const int32_t padded = table.padded(n);
      const auto fit = std::lower_bound(sizes.begin(), sizes.end(), n);
      EXPECT_EQ(padded, n == 0 ? 0 : *fit);
      EXPECT_GE(padded, n);
      EXPECT_GE(padded, previous);
      EXPECT_EQ(table.padded(padded), padded);
      previous = padded;
    }
    EXPECT_EQ(table.padded(table.max() + 1), -1);
    EXPECT_EQ(table.padded(-1), -1);
  }
}

}  // namespace
}  // namespace reprise::cudagraph
