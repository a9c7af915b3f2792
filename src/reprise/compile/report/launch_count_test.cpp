#include "reprise/compile/report/launch_count.h"

#include <gtest/gtest.h>

#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::program_of;

constexpr const char* kGrouped = R"(
    program {
      group g0 {
        input %x0: f32[T, 8]
        input %x1: f32[8]
        %0: f32[T, 8] = add(%x0, %x0)
        %1: f32[T, 8] = rms_norm(%0, %x1) {epsilon=1e-05}
        return %1
      }
      input %x: f32[T, 8]
      parameter p0: f32[8]
      %0: f32[T, 8] = row_group(%x, p0) {group=g0}
      %1: f32[T, 4] = slice(%0) {dim=1, begin=0, length=4}
      %2: f32[T, 2, 2] = unflatten(%1) {heads=2}
      %3: f32[T, 4] = flatten(%2)
      %4: f32[T, 4] = empty()
      %5: f32[T, 4] = add(%3, %3)
      return %5, %4
    }
  )";

TEST(LaunchCount, views_and_uninitialised_memory_are_no_launches_and_a_group_is_one) {
  EXPECT_EQ(num_launches(program_of(kGrouped)), 2U);
}

TEST(LaunchCount, a_group_without_code_costs_its_ops_in_each_piece_that_runs_it) {
  program::CompiledProgram compiled;
  compiled.split = program::split(program_of(kGrouped), {});
  compiled.split.pieces.push_back(compiled.split.pieces.front());
  compiled.code.resize(1);
  compiled.code[0].push_back(nullptr);
  EXPECT_EQ(num_launches(compiled), 6U);
  compiled.code[0][0] = std::make_unique<RowGroup>();
  EXPECT_EQ(num_launches(compiled), 4U);
}

}  // namespace
}  // namespace reprise::compile
