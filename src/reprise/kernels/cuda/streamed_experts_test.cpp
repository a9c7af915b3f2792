#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "reprise/device/cuda/cuda_stream.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/fake_cuda/streamed_ops_fixture.h"
#include "tests/support/kernels/float_panels.h"
#include "tests/support/kernels/packed_weights.h"

// Products of experts whose weights arrive by bulk copies have the bits of the usual kernels, which
// other tests compare with the oracle.
namespace reprise::kernels::cuda {
namespace {

class StreamedExperts : public StreamedOps {
 protected:
  Tensor blocks(PanelFormat format, int64_t num_experts, int64_t columns, int64_t depth) {
    const std::array parts = {PanelPart{.format = format, .columns = num_experts * columns}};
    Tensor weight = own(packed_weight_type(parts, depth, dtype()));
    fill_packed_weight(weight, parts, random_);
    return as_experts(weight, num_experts);
  }
  Tensor floats(PanelFormat codec, int64_t num_experts, int64_t columns, int64_t depth) {
    Tensor weight = own(float_panels_type(codec, num_experts * columns, depth, dtype()));
    fill_float_panels(weight, random_);
    return as_experts(weight, num_experts);
  }
  Tensor rows_for(const Tensor& experts, int64_t rows) {
    Tensor x = random({rows, experts.size(2)});
    if (experts.layout().family != WeightFamily::block_panels) return x;
    return quantized(x);
  }
  void expect_usual_bits(const Tensor& experts, int64_t tokens, int64_t top_k, bool has_missing) {
    SCOPED_TRACE(testing::Message()
                 << tokens << " x " << top_k << ", " << experts.type().to_string());
    const Tensor choice = choose(tokens, top_k, experts.size(0), has_missing);
    const Tensor bias = tokens % 2 == 1 ? random({experts.size(0), experts.size(1)}) : Tensor();
    for (const int64_t rows : {tokens, tokens * top_k}) {
      const Tensor x = rows_for(experts, rows);
      const std::vector<Tensor> inputs{x, experts, bias, choice};
      const Bytes want = bytes_by({.kernel = Kernel::own}, OpCode::expert_linear, inputs, {}, {});
      EXPECT_EQ(bytes_by({.kernel = Kernel::streamed}, OpCode::expert_linear, inputs, {}, {}),
                want);
    }
  }
  /// Weights of all forms, for four experts.
  std::vector<Tensor> all_forms() {
    return {random({4, 40, 672}),  // the last panel of an expert is short
            blocks(PanelFormat::int4_g128, 4, 48, 1152),
            blocks(PanelFormat::q4_k, 4, 32, 1280),
            blocks(PanelFormat::mxfp4, 4, 48, 1088),
            floats(PanelFormat::f8e4m3_g128, 4, 32, 1152),
            floats(PanelFormat::f4_g64, 4, 32, 1152)};
  }

 private:
};

TEST_P(StreamedExperts, have_the_bits_of_the_usual_kernels) {
  for (const Tensor& experts : all_forms()) {
    for (const auto& [tokens, top_k] : {std::pair{1, 1}, {1, 3}, {2, 2}, {5, 2}, {8, 3}, {16, 2}}) {
      for (const bool has_missing : {false, true}) {
        expect_usual_bits(experts, tokens, top_k, has_missing);
      }
    }
    if (HasFailure()) return;
  }
  for (const int64_t depth : {32, 64, 480, 512, 544}) {
    for (const int64_t columns : {1, 15, 16, 17}) {
      expect_usual_bits(random({3, columns, depth}), 3, 2, true);
      expect_usual_bits(random({3, columns, depth}), 1, 2, false);
    }
  }
  // Qwen3-30B-A3B's products.
  expect_usual_bits(random({4, 32, 2048}), 1, 2, false);
  expect_usual_bits(blocks(PanelFormat::int4_g128, 4, 32, 768), 3, 2, false);
}

TEST_P(StreamedExperts, leave_larger_tiles_and_other_rows_to_the_usual_kernels) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver tells which kernels ran";
  const auto is_streamed = [&](const Tensor& x, const Tensor& experts, int64_t top_k) {
    functions_.clear();
    const ProductChoice choice{.kernel = Kernel::streamed};
    const ForcedChoice forced(executor_.choices(), choice);
    (void)run(OpCode::expert_linear,
              {x, experts, {}, choose(x.size(0), top_k, experts.size(0), false)});
    return std::ranges::any_of(functions_, [](const std::string& function) {
      return function.find("_streamed_") != std::string::npos;
    });
  };
  EXPECT_TRUE(is_streamed(random({12, 64}), random({3, 16, 64}), 2));   // 8 rows of an expert
  EXPECT_FALSE(is_streamed(random({13, 64}), random({3, 16, 64}), 2));  // tiles of 16 rows
  EXPECT_FALSE(is_streamed(random({2, 40}), random({3, 16, 40}), 2));
  const Tensor x = random({2, 69}).with_layout({2, 64}, {69, 1}, 0);
  EXPECT_FALSE(is_streamed(x, floats(PanelFormat::f8e4m3_rows, 3, 32, 64), 2));
}

TEST_P(StreamedExperts, have_the_same_bits_in_every_order_of_threads_and_copies) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU chooses its order itself";
  for (const Tensor& experts : {random({4, 136, 1120}),
                                blocks(PanelFormat::int4_g128, 4, 144, 2176),
                                floats(PanelFormat::f4_g64, 4, 144, 2176)}) {
    for (const auto& [tokens, top_k] : {std::pair{1, 3}, {4, 2}}) {
      const Tensor x = rows_for(experts, tokens);
      const std::vector<Tensor> inputs{
          x, experts, {}, choose(tokens, top_k, experts.size(0), true)};
      const auto result = [&](Kernel kernel, uint64_t number) {
        const HostOrder order(number);
        return bytes_by({.kernel = kernel}, OpCode::expert_linear, inputs, {}, {});
      };
      const Bytes want = result(Kernel::own, 0);
      for (uint64_t number = 0; number <= 5; ++number) {
        EXPECT_EQ(result(Kernel::streamed, number), want) << "order " << number;
      }
    }
  }
}

// Behind a kernel that began early, older kernels may still choose the experts.
TEST_P(StreamedExperts, read_chosen_experts_early_only_if_no_kernel_can_still_write_them) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  const ProductChoice choice{.kernel = Kernel::streamed};
  const ForcedChoice forced(executor_.choices(), choice);
  const Tensor experts = random({4, 32, 640});
  const Tensor x = random({1, 640});
  const Tensor other = random({1, 640});
  const Tensor chosen = ints({1, 3}, {2, 0, 3});
  const std::vector<Tensor> inputs{x, experts, {}, chosen};
  const auto knows_early = [&] {
    return dynamic_cast<device::cuda::CudaStream&>(*stream_).is_settled_early(chosen.data(), 12);
  };
  (void)run(OpCode::add, {other, x});  // begins when all others have ended
  EXPECT_TRUE(knows_early());
  (void)run(OpCode::expert_linear, inputs);
  EXPECT_FALSE(knows_early()) << "behind a kernel that began early";
  expect_same_bits_behind_kernels(OpCode::expert_linear, inputs, {}, {x, chosen});
  const Tensor want = run(OpCode::expert_linear, inputs);
  std::array<Tensor, 1> outputs{make({3, 32})};
  (void)run(OpCode::add, {other, x});
  const EarlierKernelsWork work({{x.data_as<std::byte>(), x.type().bytes()}});
  executor_.execute({.code = OpCode::expert_linear}, inputs, outputs);
  stream_->synchronize();
  EXPECT_EQ(bytes_of(outputs[0]), bytes_of(want));
}

INSTANTIATE_TEST_SUITE_P(Types,
                         StreamedExperts,
                         testing::Values(DType::bf16, DType::f16),
                         StreamedOps::name_of);

}  // namespace
}  // namespace reprise::kernels::cuda
