#include <gtest/gtest.h>

#include <set>

#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::program {
namespace {

constexpr uint32_t kNumPrograms = 4'000;
constexpr SymbolValues kSmall{5, 2, 1};

TEST(RandomPrograms, are_well_formed_and_use_every_op) {
  std::set<OpCode> seen;
  for (uint32_t seed = 0; seed < kNumPrograms; ++seed) {
    const Program program = random_program(seed);
    ASSERT_EQ(verify(program).value_or(""), "") << "seed " << seed << "\n" << print(program);
    for (const Node& node : program.nodes) seen.insert(node.op);
  }
  // Random programs contain no groups (a pass makes groups, and its tests cover them) and no custom
  // ops. Blocks need rows whose length is a multiple of 32, which these small shapes do not have;
  // kernels_test covers them.
  seen.insert({OpCode::row_group, OpCode::custom});
  seen.insert({OpCode::quantize_blocks,
               OpCode::rms_norm_quantize_blocks,
               OpCode::linear_silu_and_mul_quantize_blocks});
  EXPECT_EQ(seen.size(), all_ops().size());
}

TEST(RandomPrograms, come_back_from_their_text) {
  for (uint32_t seed = 0; seed < kNumPrograms; ++seed) {
    const Program program = random_program(seed);
    const std::string text = print(program);
    const Program parsed = parse(text);
    ASSERT_EQ(print(parsed), text) << "seed " << seed;
    ASSERT_EQ(fingerprints(parsed, kSmall), fingerprints(program, kSmall)) << "seed " << seed;
  }
}

TEST(RandomPrograms, compute_the_same_whole_and_in_pieces) {
  const std::vector<std::vector<OpCode>> splits = {{},
                                                   {OpCode::attention},
                                                   {OpCode::attention, OpCode::kv_write},
                                                   {OpCode::linear, OpCode::rope},
                                                   {OpCode::silu_and_mul, OpCode::add}};
  for (uint32_t seed = 0; seed < kNumPrograms; ++seed) {
    const Program program = random_program(seed);
    const std::vector<OpCode>& ops = splits[seed % splits.size()];
    ASSERT_EQ(split_fingerprints(program, ops, kSmall), fingerprints(program, kSmall))
        << "seed " << seed << "\n"
        << print(program);
  }
}

TEST(RandomPrograms, differ_in_what_they_compute) {
  std::set<std::vector<uint64_t>> seen;
  for (uint32_t seed = 0; seed < 500; ++seed)
    seen.insert(fingerprints(random_program(seed), kSmall));
  EXPECT_GT(seen.size(), 450U);
}

}  // namespace
}  // namespace reprise::program
