#include "reprise/structured_output/client_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace reprise::structured_output {
namespace {

TEST(ClientShares, put_a_client_with_little_work_before_one_with_much) {
  ClientShares shares;
  EXPECT_EQ(shares.rank("a"), shares.rank("b"));
  shares.begin("a", 100);
  EXPECT_GT(shares.rank("a"), shares.rank("b"));
  shares.correct("a", -90);
  EXPECT_EQ(shares.rank("a") - shares.rank("b"), 10);
}

TEST(ClientShares, are_equal_for_clients_that_always_want_more) {
  ClientShares shares;
  std::map<std::string, int> num_steps = {{"small", 1}, {"medium", 10}, {"large", 1000}};
  std::map<std::string, int> had;
  for (int i = 0; i < 10000; ++i) {
    std::string next = "small";
    for (const auto& [client, cost] : num_steps) {
      if (shares.rank(client) < shares.rank(next)) next = client;
    }
    shares.begin(next, num_steps[next]);
    had[next] += num_steps[next];
  }
  EXPECT_NEAR(had["small"], had["large"], 1000);
  EXPECT_NEAR(had["medium"], had["large"], 1000);
}

TEST(ClientShares, give_no_credit_for_time_without_work) {
  ClientShares shares;
  for (int i = 0; i < 100; ++i) shares.begin("busy", 10);
  const int64_t lead = shares.rank("busy") - shares.rank("new");
  EXPECT_EQ(lead, 10) << "the new client may have one piece of work more, not a hundred";
}

TEST(ClientShares, remember_a_bounded_number_of_clients) {
  ClientShares shares;
  shares.begin("expensive", int64_t{1} << 40);
  for (size_t i = 0; i < 3 * ClientShares::kMaxClients; ++i) {
    shares.begin("client " + std::to_string(i), 1 + static_cast<int64_t>(i));
  }
  EXPECT_LE(shares.num_remembered(), ClientShares::kMaxClients);
  EXPECT_GT(shares.rank("expensive"), shares.rank("client 5"));
}

}  // namespace
}  // namespace reprise::structured_output
