#include "reprise/api/loading/engine_device.h"

#include <gtest/gtest.h>

namespace reprise::api {
namespace {

using kernels::Isa;

class InvarianceByDefault : public ::testing::TestWithParam<Isa> {};

TEST_P(InvarianceByDefault, is_asked_for_where_it_costs_nothing) {
  EngineDevice device;
  device.isa = GetParam();
  EngineArgs args;
  EXPECT_EQ(is_batch_invariant(args, device), GetParam() != Isa::amx);
  args.batch_invariant = true;
  EXPECT_TRUE(is_batch_invariant(args, device));
  args.batch_invariant = false;
  EXPECT_FALSE(is_batch_invariant(args, device));
}

INSTANTIATE_TEST_SUITE_P(
    Isas,
    InvarianceByDefault,
    ::testing::Values(
        Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16, Isa::amx),
    [](const auto& test) { return std::string(kernels::isa_name(test.param)); });

}  // namespace
}  // namespace reprise::api
