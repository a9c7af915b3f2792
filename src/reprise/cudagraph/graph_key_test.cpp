#include "reprise/cudagraph/graph_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "reprise/base/error.h"

namespace reprise::cudagraph {
namespace {

std::vector<PlannedKey> some_keys() {
  return {
      {CudagraphRuntimeMode::PIECEWISE, {.num_tokens = 16}},
      {CudagraphRuntimeMode::PIECEWISE, {.num_tokens = 8}},
      {CudagraphRuntimeMode::FULL, {.num_tokens = 8, .num_reqs = 8, .uniform = true}},
      {CudagraphRuntimeMode::FULL, {.num_tokens = 16, .num_reqs = 4, .uniform = true}},
      {CudagraphRuntimeMode::FULL, {.num_tokens = 16, .num_reqs = 16, .uniform = false}},
      {CudagraphRuntimeMode::FULL,
       {.num_tokens = 8, .num_reqs = 8, .uniform = true, .has_lora = true, .num_active_loras = 2}}};
}

TEST(GraphKey, its_text_names_it_again) {
  for (const PlannedKey& key : some_keys()) {
    // A text without the number of adapters also fits the keys with adapters.
    std::string text = graph_key_text(key.mode, key.descriptor);
    if (!key.descriptor.has_lora) text += ",lora=0";
    EXPECT_EQ(find_graph_key(text, some_keys()), key) << text;
  }
  EXPECT_EQ(graph_key_text(CudagraphRuntimeMode::FULL, some_keys()[5].descriptor),
            "FULL:tokens=8,reqs=8,uniform,lora=2");
}

TEST(GraphKey, a_part_of_it_is_enough_where_only_one_key_fits) {
  const std::vector<PlannedKey> keys = some_keys();
  EXPECT_EQ(find_graph_key("piecewise:8", keys), keys[1]);
  EXPECT_EQ(find_graph_key("FULL:reqs=4", keys), keys[3]);
  EXPECT_EQ(find_graph_key("FULL:16,uniform", keys), keys[3]);
  EXPECT_EQ(find_graph_key("PIECEWISE:16,reqs=*", keys), keys[0]);
  EXPECT_EQ(find_graph_key("FULL:lora=2", keys), keys[5]);
}

TEST(GraphKey, is_read_as_the_log_writes_it) {
  const std::vector<PlannedKey> keys = some_keys();
  EXPECT_EQ(find_graph_key("FULL [tokens=16 reqs=16]", keys), keys[4]);
  EXPECT_EQ(find_graph_key("PIECEWISE [tokens=16 reqs=*]", keys), keys[0]);
}

TEST(GraphKey, what_fits_none_or_several_is_refused_with_those_that_there_are) {
  const auto problem_of = [](std::string_view text) -> std::string {
    try {
      (void)find_graph_key(text, some_keys());
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  using ::testing::Not;
  EXPECT_THAT(problem_of("FULL:7"),
              AllOf(HasSubstr("no graph 'FULL:7'"),
                    HasSubstr("PIECEWISE:tokens=16 "),
                    HasSubstr("FULL:tokens=16,reqs=4,uniform")));
  EXPECT_THAT(problem_of("FULL:16"),
              AllOf(HasSubstr("fits 2 graphs"),
                    HasSubstr("FULL:tokens=16,reqs=16"),
                    Not(HasSubstr("PIECEWISE"))));
  EXPECT_THAT(problem_of("HALF:8"), HasSubstr("no graph"));
  EXPECT_THAT(problem_of(""), HasSubstr("is empty"));
  EXPECT_THAT(problem_of("FULL:x"), HasSubstr("'x' is no number"));
  EXPECT_THAT(problem_of("FULL:tokens=-1"), HasSubstr("'-1' is no number"));
  EXPECT_THAT(problem_of("FULL:width=1"), HasSubstr("'width=1' is not known"));
}

}  // namespace
}  // namespace reprise::cudagraph
