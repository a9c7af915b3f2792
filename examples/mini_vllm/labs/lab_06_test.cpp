// The tests of lab 06. The include folder of the target decides whether they read solution/ or
// starter/.
#include "lab_06.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/isa.h"
#include "reprise/program/compilable_function.h"

namespace course {
namespace {

using namespace reprise;

constexpr int64_t kWidth = 16;

class Lab06 : public ::testing::Test {
 protected:
  Lab06() {
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = static_cast<float>(i % 5) - 2.0F;
  }

  Tensor rows(int64_t count) {
    x_.assign(static_cast<size_t>(count * kWidth), 0.0F);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 7) - 3.0F;
    return Tensor::borrow({DType::f32, {count, kWidth}}, x_.data(), executor_);
  }

  program::CompilableFunction compilable(CompileSupport support) {
    return {
        [this](std::span<const Tensor> in) { return std::vector{residual_block(in[0], weight_)}; },
        {"x"},
        {.parameter_memory = {weight_.extent()}},
        std::move(support)};
  }

  /// Runs the block and compares each number of the result with a sum of its own.
  void expect_sums(program::CompilableFunction& block, int64_t count) {
    const std::vector<Tensor> inputs = {rows(count)};
    const Tensor result = block.run(inputs, executor_).front();
    stream_->synchronize();
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t column = 0; column < kWidth; ++column) {
        const float* x = &x_[static_cast<size_t>(row * kWidth)];
        const float* w = &weights_[static_cast<size_t>(column * kWidth)];
        const float sum = std::inner_product(x, x + kWidth, w, x[column]);
        ASSERT_EQ(result.data_as<float>()[row * kWidth + column], sum) << row << ' ' << column;
      }
    }
  }

  std::unique_ptr<device::Device> device_ = device::create_cpu_device({});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  std::unique_ptr<device::MemoryPool> pool_ = device_->create_pool();
  kernels::CpuExecutor executor_{
      *stream_, *pool_, kernels::kernel_table(kernels::best_isa(device::detect_cpu_features()))};
  std::vector<float> weights_ = std::vector<float>(static_cast<size_t>(kWidth * kWidth));
  std::vector<float> x_;
  Tensor weight_ = Tensor::borrow({DType::f32, {kWidth, kWidth}}, weights_.data(), executor_);
};

TEST_F(Lab06, one_program_serves_every_batch_if_its_rows_are_declared_open) {
  program::CompilableFunction block = compilable(for_every_batch());
  for (int64_t count = 1; count <= 20; ++count) expect_sums(block, count);
  ASSERT_NE(block.compiled(), nullptr);
  EXPECT_EQ(block.compiled()->num_programs(), 1U);
  EXPECT_EQ(block.compiled()->num_eager_runs(), 0U);
}

TEST_F(Lab06, a_width_that_is_declared_open_costs_a_program_per_size) {
  program::CompilableFunction block = compilable(too_open());
  std::vector<int64_t> sizes;
  for (int64_t count = 1; count <= 20; ++count) sizes.push_back(count);
  for (const int64_t count : sizes) expect_sums(block, count);
  const size_t expected = programs_needed(sizes, program::GuardedFunction::kMaxPrograms);
  EXPECT_EQ(block.compiled()->num_programs(), expected);
  EXPECT_EQ(block.compiled()->num_eager_runs(), sizes.size() - expected);
}

TEST_F(Lab06, a_model_that_is_kept_out_runs_its_own_code) {
  program::CompilableFunction block = compilable(kept_out());
  for (const int64_t count : {1, 3, 20}) expect_sums(block, count);
  EXPECT_EQ(block.compiled(), nullptr);
}

TEST_F(Lab06, programs_are_counted_as_the_engine_makes_them) {
  EXPECT_EQ(programs_needed({}, 8), 0U);
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4},
                                            std::vector<int64_t>{4, 4, 2, 4},
                                            std::vector<int64_t>{9, 8, 7, 6, 5, 4, 3, 2, 1, 1}}) {
    program::CompilableFunction block(
        [](std::span<const Tensor> in) {
          const bool is_even = in[0].size(0) % 2 == 0;  // the model decides by the size
          const Tensor sum = ops::add(in[0], in[0]);
          return std::vector{is_even ? sum : ops::add(sum, in[0])};
        },
        {"x"},
        {});
    for (const int64_t count : sizes) {
      const std::vector<Tensor> inputs = {rows(count)};
      (void)block.run(inputs, executor_);
    }
    stream_->synchronize();
    EXPECT_EQ(programs_needed(sizes, program::GuardedFunction::kMaxPrograms),
              block.compiled()->num_programs());
  }
}

}  // namespace
}  // namespace course
