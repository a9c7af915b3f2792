#include "reprise/sampling/token_filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>
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

/// A row with the maxima of its parts.
struct Row {
  explicit Row(std::vector<float> row_logits)
      : logits(std::move(row_logits)), maxima(num_parts(logits.size())) {
    EXPECT_TRUE(plain_row_passes().find_maxima(logits, maxima));
  }
  [[nodiscard]] LogitRow view() const {
    return {
        .logits = logits, .maxima = maxima, .max = *std::max_element(maxima.begin(), maxima.end())};
  }

  std::vector<float> logits;
  std::vector<float> maxima;
};

/// The tokens down to the edge that the filter finds, without those whose weight is 0.
std::vector<int32_t> kept(TokenFilter& filter,
                          const std::vector<float>& logits,
                          const FilterOptions& options) {
  const Row row(logits);
  const Candidate edge = filter.find_edge(row.view(), options);
  std::vector<int32_t> result;
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate token = {.logit = logits[i], .token_id = static_cast<int32_t>(i)};
    const double distance = static_cast<double>(logits[i]) - row.view().max;
    if (!is_likelier(edge, token) && std::exp(distance / options.temperature) != 0.0) {
      result.push_back(token.token_id);
    }
  }
  return result;
}

int32_t draw(TokenFilter& filter,
             const std::vector<float>& logits,
             const FilterOptions& options,
             double uniform) {
  const Row row(logits);
  return filter.draw(
      row.view(), options.temperature, filter.find_edge(row.view(), options), uniform);
}

TEST(TokenFilter, agrees_with_full_sorts_on_random_logits) {
  std::mt19937 random(20240607);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  TokenFilter filter(20000, plain_row_passes());
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
    const std::vector<int32_t> got = kept(filter, logits, options);
    ASSERT_EQ(got.size(), expected.size())
        << "round " << round << " vocab " << logits.size() << " T " << options.temperature
        << " min_p " << options.min_p << " top_k " << options.top_k << " top_p " << options.top_p;
    auto next = expected.begin();
    for (const int32_t id : got) ASSERT_EQ(id, (next++)->first) << "round " << round;
  }
}

TEST(TokenFilter, keeps_the_lower_ids_of_a_tie_at_the_top_k_edge) {
  TokenFilter filter(8, plain_row_passes());
  const std::vector<float> logits = {1, 3, 2, 2, 2, 3};
  EXPECT_EQ(kept(filter, logits, {.top_k = 1}), (std::vector<int32_t>{1}));
  EXPECT_EQ(kept(filter, logits, {.top_k = 3}), (std::vector<int32_t>{1, 2, 5}));
  EXPECT_EQ(kept(filter, logits, {.top_k = 6}), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(kept(filter, logits, {.top_k = 1 << 30}).size(), 6U);
}

TEST(TokenFilter, keeps_the_single_likeliest_token_at_a_tiny_top_p_and_at_min_p_one) {
  TokenFilter filter(8, plain_row_passes());
  const std::vector<float> logits = {1, 2, 3, 3};
  EXPECT_EQ(kept(filter, logits, {.top_p = 1e-9F}), (std::vector<int32_t>{2}));
  EXPECT_EQ(kept(filter, logits, {.min_p = 1.0F}), (std::vector<int32_t>{2, 3}));
}

TEST(TokenFilter, keeps_tokens_until_their_mass_reaches_top_p) {
  TokenFilter filter(8, plain_row_passes());
  const std::vector<float> logits = {
      std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  EXPECT_EQ(kept(filter, logits, {.top_p = 0.39F}), (std::vector<int32_t>{1}));
  EXPECT_EQ(kept(filter, logits, {.top_p = 0.41F}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(kept(filter, logits, {.top_p = 0.69F}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(kept(filter, logits, {.top_p = 0.71F}), (std::vector<int32_t>{1, 2, 3}));
  // top_p sees the distribution after top_k: 0.4/0.7 and 0.3/0.7.
  EXPECT_EQ(kept(filter, logits, {.top_k = 2, .top_p = 0.57F}), (std::vector<int32_t>{1}));
  EXPECT_EQ(kept(filter, logits, {.top_k = 2, .top_p = 0.58F}), (std::vector<int32_t>{1, 3}));
}

TEST(TokenFilter, keeps_the_only_finite_logit_whatever_the_options) {
  TokenFilter filter(300, plain_row_passes());
  std::vector<float> logits(300, kNever);
  logits[211] = -1e30F;
  for (const FilterOptions& options : {FilterOptions{},
                                       FilterOptions{.top_k = 3},
                                       FilterOptions{.top_p = 0.5F},
                                       FilterOptions{.temperature = 1e-5F, .min_p = 1.0F}}) {
    EXPECT_EQ(kept(filter, logits, options), (std::vector<int32_t>{211}));
  }
}

TEST(TokenFilter, survives_the_range_of_floats_at_a_tiny_temperature) {
  TokenFilter filter(4, plain_row_passes());
  const float max = std::numeric_limits<float>::max();
  for (const float top_p : {0.5F, 1.0F}) {
    EXPECT_EQ(draw(filter, {max, -max, 0}, {.temperature = 1e-5F, .top_p = top_p}, 0.999), 0);
  }
}

TEST(TokenFilter, draws_by_cumulated_weight_and_never_past_the_end) {
  TokenFilter filter(300, plain_row_passes());
  std::vector<float> logits(300, kNever);
  logits[3] = std::log(0.5F);
  logits[5] = logits[290] = std::log(0.25F);
  EXPECT_EQ(draw(filter, logits, {}, 0.0), 3);
  EXPECT_EQ(draw(filter, logits, {}, 0.4999), 3);
  EXPECT_EQ(draw(filter, logits, {}, 0.5001), 5);
  EXPECT_EQ(draw(filter, logits, {}, 0.7501), 290);
  EXPECT_EQ(draw(filter, logits, {}, std::nextafter(1.0, 0.0)), 290);
  EXPECT_EQ(draw(filter, logits, {}, 1.0), 290);
  // Only the lower id of a tie is kept.
  EXPECT_EQ(draw(filter, logits, {.top_k = 2}, 0.999), 5);
}

TEST(TokenFilter, finds_the_edge_of_top_p_in_rows_that_are_flat_or_full_of_ties) {
  constexpr int kVocab = 30000;
  TokenFilter filter(kVocab, plain_row_passes());
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> flat(kVocab);
  for (float& logit : flat) logit = normal(random);
  std::vector<float> stairs = flat;
  for (float& logit : stairs) logit = std::round(logit);
  const std::vector<float> equal(kVocab, -7.25F);
  for (const std::vector<float>& logits : {flat, stairs, equal}) {
    for (const float top_p : {0.1F, 0.5F, 0.95F, 0.9999F}) {
      const FilterOptions options = {.temperature = 0.8F, .top_p = top_p};
      const std::map<int32_t, double> expected = filter_ref(logits, options);
      const std::vector<int32_t> got = kept(filter, logits, options);
      // Sums of thousands of weights round, so one token at the edge may differ.
      ASSERT_NEAR(static_cast<double>(got.size()), static_cast<double>(expected.size()), 1.0)
          << top_p;
      for (const int32_t id : got) {
        ASSERT_TRUE(got.size() > expected.size() || expected.contains(id)) << top_p;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::sampling
