#include "reprise/sampling/token_filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace reprise::sampling {
namespace {

/// The reference result, computed by full sorts: each kept token id with its weight.
std::map<int32_t, double> filter_ref(const std::vector<float>& logits,
                                     const FilterOptions& options) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  const double max = logits[static_cast<size_t>(order[0])];
  const auto weight = [&](int32_t id) {
    return std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - max) /
                    options.temperature);
  };
  std::erase_if(order, [&](int32_t id) {
    return weight(id) == 0.0 || (options.min_p > 0 && weight(id) < options.min_p);
  });
  if (options.top_k > 0 && order.size() > static_cast<size_t>(options.top_k)) {
    order.resize(static_cast<size_t>(options.top_k));
  }
  double total = 0.0;
  for (const int32_t id : order) total += weight(id);
  double before = 0.0;
  std::map<int32_t, double> kept;
  for (const int32_t id : order) {
    if (options.top_p < 1.0F && before >= static_cast<double>(options.top_p) * total) break;
    kept[id] = weight(id);
    before += weight(id);
  }
  return kept;
}

std::vector<int32_t> ids(std::span<const Candidate> candidates) {
  std::vector<int32_t> result;
  for (const Candidate& candidate : candidates) result.push_back(candidate.token_id);
  return result;
}

TEST(TokenFilter, agrees_with_full_sorts_on_random_logits) {
  std::mt19937 random(20240607);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  TokenFilter filter(20000);
  for (int round = 0; round < 600; ++round) {
    const size_t sizes[] = {1, 2, 31, 64, 65, 1000, 4096, 20000};
    std::vector<float> logits(sizes[random() % (round % 20 == 0 ? 8 : 6)]);
    const float spread = round % 3 == 0 ? 1.0F : 10.0F;
    for (float& logit : logits) {
      logit = spread * (uniform(random) - 0.5F);
      if (round % 4 == 0) logit = std::round(logit * 4.0F) / 4.0F;  // many ties
      if (round % 5 == 0 && uniform(random) < 0.3F) logit = kNever;
    }
    logits[random() % logits.size()] = 0.25F;  // at least one finite
    FilterOptions options;
    options.temperature = round % 2 == 0 ? 1.0F : 0.05F + 2.0F * uniform(random);
    if (random() % 2 == 0) options.min_p = uniform(random);
    if (random() % 2 == 0) options.top_k = 1 + static_cast<int>(random() % 100);
    if (random() % 2 == 0) options.top_p = 0.001F + 0.999F * uniform(random);

    const std::map<int32_t, double> expected = filter_ref(logits, options);
    const std::span<const Candidate> kept = filter.apply(logits, options);
    ASSERT_EQ(kept.size(), expected.size())
        << "round " << round << " vocab " << logits.size() << " T " << options.temperature
        << " min_p " << options.min_p << " top_k " << options.top_k << " top_p " << options.top_p;
    auto next = expected.begin();
    for (const Candidate& candidate : kept) {  // ascending ids, like the map
      ASSERT_EQ(candidate.token_id, next->first) << "round " << round;
      ASSERT_DOUBLE_EQ(candidate.weight, next->second);
      ++next;
    }
  }
}

TEST(TokenFilter, keeps_the_lower_ids_of_a_tie_at_the_top_k_edge) {
  TokenFilter filter(8);
  const std::vector<float> logits = {1, 3, 2, 2, 2, 3};
  EXPECT_EQ(ids(filter.apply(logits, {.top_k = 1})), (std::vector<int32_t>{1}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_k = 3})), (std::vector<int32_t>{1, 2, 5}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_k = 6})), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_k = 1 << 30})).size(), 6U);
}

TEST(TokenFilter, keeps_the_single_likeliest_token_at_a_tiny_top_p_and_at_min_p_one) {
  TokenFilter filter(8);
  const std::vector<float> logits = {1, 2, 3, 3};
  EXPECT_EQ(ids(filter.apply(logits, {.top_p = 1e-9F})), (std::vector<int32_t>{2}));
  EXPECT_EQ(ids(filter.apply(logits, {.min_p = 1.0F})), (std::vector<int32_t>{2, 3}));
}

TEST(TokenFilter, keeps_tokens_until_their_mass_reaches_top_p) {
  TokenFilter filter(8);
  const std::vector<float> logits = {
      std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  EXPECT_EQ(ids(filter.apply(logits, {.top_p = 0.39F})), (std::vector<int32_t>{1}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_p = 0.41F})), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_p = 0.69F})), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_p = 0.71F})), (std::vector<int32_t>{1, 2, 3}));
  // top_p sees the distribution after top_k: 0.4/0.7 and 0.3/0.7.
  EXPECT_EQ(ids(filter.apply(logits, {.top_k = 2, .top_p = 0.57F})), (std::vector<int32_t>{1}));
  EXPECT_EQ(ids(filter.apply(logits, {.top_k = 2, .top_p = 0.58F})), (std::vector<int32_t>{1, 3}));
}

TEST(TokenFilter, keeps_the_only_finite_logit_whatever_the_options) {
  TokenFilter filter(300);
  std::vector<float> logits(300, kNever);
  logits[211] = -1e30F;
  for (const FilterOptions& options : {FilterOptions{},
                                       FilterOptions{.top_k = 3},
                                       FilterOptions{.top_p = 0.5F},
                                       FilterOptions{.temperature = 1e-5F, .min_p = 1.0F}}) {
    EXPECT_EQ(ids(filter.apply(logits, options)), (std::vector<int32_t>{211}));
  }
}

TEST(TokenFilter, survives_the_range_of_floats_at_a_tiny_temperature) {
  TokenFilter filter(4);
  const float max = std::numeric_limits<float>::max();
  EXPECT_EQ(ids(filter.apply(std::vector<float>{max, -max, 0}, {.temperature = 1e-5F})),
            (std::vector<int32_t>{0}));
}

TEST(TokenFilter, draws_by_cumulated_weight_and_never_past_the_end) {
  const std::vector<Candidate> candidates = {{.token_id = 3, .weight = 0.5},
                                             {.token_id = 5, .weight = 0.25},
                                             {.token_id = 9, .weight = 0.25}};
  EXPECT_EQ(draw(candidates, 0.0), 3);
  EXPECT_EQ(draw(candidates, 0.4999), 3);
  EXPECT_EQ(draw(candidates, 0.5), 5);
  EXPECT_EQ(draw(candidates, 0.75), 9);
  EXPECT_EQ(draw(candidates, std::nextafter(1.0, 0.0)), 9);
  EXPECT_EQ(draw(candidates, 1.0), 9);
}

}  // namespace
}  // namespace reprise::sampling
