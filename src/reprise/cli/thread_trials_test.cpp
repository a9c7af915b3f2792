#include "reprise/cli/thread_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "reprise/cli/tuned_products_text.h"

namespace reprise::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

ThreadTrial trial(int threads, double decode_us, double prompt_us) {
  return {
      .num_threads = threads, .decode_us = decode_us, .prompt_us = prompt_us, .prompt_tokens = 256};
}

TEST(ThreadTrials, a_number_of_threads_is_named_only_if_it_saves_three_percent_and_loses_nothing) {
  const auto text = [](double decode_us, double prompt_us) {
    return thread_trials_text(std::array{trial(4, 1000, 2000), trial(2, decode_us, prompt_us)});
  };
  EXPECT_THAT(text(900, 2000),
              HasSubstr("give --num-threads 2: steps take 10.0 % (decode) and 0.0 %"));
  EXPECT_THAT(text(980, 1990), HasSubstr("nothing to tune on this CPU"));  // noise
  EXPECT_THAT(text(900, 2001), HasSubstr("nothing to tune on this CPU"));  // prompts lose
  EXPECT_THAT(text(1300, 1200), Not(HasSubstr("give")));
  EXPECT_THAT(text(900, 2000),
              HasSubstr("      4                    1.000                     2.000\n"));
}

TEST(TunedProductsText, lists_the_choices_that_differ_from_the_rules) {
  using Kernel = kernels::ProductChoice::Kernel;
  kernels::ProductTable table;
  const kernels::ProductShape shape{.columns = 896, .depth = 4864, .x_stride = 4864};
  table.set(shape, 8, {.choice = {}, .microseconds = 9, .built_in_microseconds = 9});
  EXPECT_EQ(changed_products_text(table), "");
  table.set(shape,
            16,
            {.choice = {.kernel = Kernel::own, .tile_columns = 32},
             .microseconds = 6,
             .built_in_microseconds = 8});
  EXPECT_EQ(changed_products_text(table),
            "product                   rows  rule, us  choice              us   saved\n"
            "linear 896x4864 bfloat16    16      8.00  own, tiles of 32  6.00  25.0 %\n");
  EXPECT_EQ(products_to_json(table).size(), 2U);
}

}  // namespace
}  // namespace reprise::cli
