#include "reprise/cli/rank_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "reprise/base/error.h"

namespace reprise::cli {
namespace {

using ::testing::HasSubstr;

std::optional<LaunchedRank> find(const std::map<std::string, std::string, std::less<>>& variables) {
  return find_launched_rank([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(RankLaunch, reads_the_variables_of_torchrun) {
  const auto launched = find({{"RANK", "3"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "10.0.0.5"},
                              {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(launched);
  EXPECT_FALSE(launched->is_mpi);
  EXPECT_EQ(launched->rank, 3);
  EXPECT_EQ(launched->size, 4);
  EXPECT_EQ(launched->local_rank, 1);
  EXPECT_EQ(launched->local_size, 2);
  EXPECT_EQ(launched->address, "10.0.0.5");
  EXPECT_EQ(launched->port, 1234);
}

TEST(RankLaunch, reads_the_variables_of_slurm) {
  const auto launched = find({{"SLURM_PROCID", "2"},
                              {"SLURM_NTASKS", "8"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_STEP_NODELIST", "node[03-07],other"}});
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->launcher, "SLURM");
  EXPECT_EQ(launched->rank, 2);
  EXPECT_EQ(launched->size, 8);
  EXPECT_EQ(launched->address, "node03");
  EXPECT_EQ(launched->port, 29500);
}

TEST(RankLaunch, mpirun_comes_first_and_one_rank_is_no_launch) {
  EXPECT_TRUE(find({{"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}})->is_mpi);
  EXPECT_FALSE(find({}));
  EXPECT_FALSE(find({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(find({{"WORLD_SIZE", "4"}}));
  EXPECT_FALSE(find({{"SLURM_NTASKS", "4"}}));
}

TEST(RankLaunch, names_a_variable_that_is_no_number_or_out_of_range) {
  for (const auto& [name, value] : std::multimap<std::string, std::string>{
           {"RANK", "4"}, {"RANK", "-1"}, {"RANK", "1x"}, {"MASTER_PORT", "70000"}}) {
    std::map<std::string, std::string, std::less<>> variables = {{"RANK", "0"},
                                                                 {"WORLD_SIZE", "4"}};
    variables[name] = value;
    try {
      (void)find(variables);
      ADD_FAILURE() << name << "=" << value << " was taken";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(name + "=" + value + ": expected a number from"));
    }
  }
}

TEST(RankLaunch, finds_the_first_node_of_a_list) {
  EXPECT_EQ(first_node("a1"), "a1");
  EXPECT_EQ(first_node("a1,b2"), "a1");
  EXPECT_EQ(first_node("gpu[7,9]"), "gpu7");
  EXPECT_EQ(first_node("gpu[01-16]"), "gpu01");
}

}  // namespace
}  // namespace reprise::cli
