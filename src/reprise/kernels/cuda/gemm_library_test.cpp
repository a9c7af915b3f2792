#include "reprise/kernels/cuda/gemm_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "reprise/device/error.h"
#include "reprise/tensor/op_table.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/kernels/products.h"
#include "tests/support/kernels/reference.h"

// Matrix products by a fake of cuBLASLt that has no notion of rows. These tests check the
// transposed operands, the strides and the algorithm of each call.
namespace reprise::kernels::cuda {
namespace {

class CublasLt : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] DType dtype() const { return GetParam(); }
  Tensor make(Shape shape, DType type) {
    const TensorType tensor_type{type, shape};
    const Tensor tensor = Tensor::own(
        tensor_type, device::PoolReference(pool_->allocate(tensor_type.bytes())), executor_);
    std::memset(tensor.data(), 0xFF, tensor_type.bytes());
    return tensor;
  }
  Tensor random(Shape shape) {
    const Tensor tensor = make(shape, dtype());
    std::normal_distribution<double> normal;
    for (const RowIndex& row : all_rows(tensor)) {
      for (int64_t i = 0; i < tensor.size(-1); ++i) {
        set_row_element(tensor, normal(random_), row, i);
      }
    }
    return tensor;
  }
  Tensor ints(const std::vector<int32_t>& values) {
    const Tensor tensor = make({static_cast<int64_t>(values.size())}, DType::i32);
    std::memcpy(tensor.data(), values.data(), values.size() * 4);
    return tensor;
  }
  /// Operands that are missing at the end are left out.
  Tensor run(CudaExecutor& executor, OpCode code, std::vector<Tensor> inputs) {
    std::array<Tensor, 1> outputs;
    inputs.resize(std::max(inputs.size(), definition_of(code).rule.operands.size));
    executor.execute({.code = code}, inputs, outputs);
    if (!stream_->is_capturing()) stream_->synchronize();
    return outputs[0];
  }
  /// The same op, recorded and replayed.
  Tensor replay(OpCode code, const std::vector<Tensor>& inputs) {
    stream_->begin_capture();
    const Tensor out = run(executor_, code, inputs);
    const auto graph = stream_->end_capture();
    const auto exec = machine_.device().instantiate(*graph);
    std::memset(out.data(), 0xFF, out.type().bytes());
    exec->launch(*stream_);
    stream_->synchronize();
    return out;
  }
  void expect_close(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.shape(), want.shape());
    const double unit = dtype() == DType::f32 ? 1e-5 : (dtype() == DType::bf16 ? 1e-2 : 1e-3);
    for (const RowIndex& row : all_rows(want)) {
      for (int64_t i = 0; i < want.size(-1); ++i) {
        const double wanted = row_element(want, row, i);
        ASSERT_NEAR(row_element(got, row, i), wanted, 16 * unit * (1 + std::abs(wanted)));
      }
    }
  }
  void expect_same_bits(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.shape(), want.shape());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0);
  }
  [[nodiscard]] uint64_t num_products() { return machine_.cublas_lt().num_products(); }

  CudaMachine machine_;
  std::unique_ptr<device::Stream> stream_ = machine_.device().create_stream();
  std::unique_ptr<device::MemoryPool> pool_ = machine_.device().create_pool();
  CudaExecutor executor_{
      *stream_, *pool_, {.num_multiprocessors = 4, .cublas_lt = &machine_.cublas_lt().api()}};
  CudaExecutor own_kernels_{*stream_, *pool_, {.num_multiprocessors = 4}};
  std::mt19937 random_{7};
};

TEST_P(CublasLt, multiplies_strided_rows_with_and_without_a_bias_as_the_oracle_does) {
  for (const int64_t rows : {9, 33, 64, 65, 130}) {
    for (const int64_t columns : {24, 40}) {
      const Tensor x = random({rows, 3 * 48}).with_layout({rows, 48}, {3 * 48, 1}, 48);
      const Tensor weight = random({columns, 48});
      const Tensor bias = random({columns});
      const Tensor want = make({rows, columns}, DType::f32);
      const uint64_t before = num_products();
      linear_ref(x, weight, {}, want);
      expect_close(run(executor_, OpCode::linear, {x, weight, {}}), want);
      linear_ref(x, weight, bias, want);
      expect_close(run(executor_, OpCode::linear, {x, weight, bias}), want);
      EXPECT_EQ(num_products() - before, 2U);
    }
  }
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

TEST_P(CublasLt, serves_every_op_with_a_product_and_replays_what_ran_eagerly) {
  const Tensor x = random({40, 48});
  const Tensor weight = random({48, 48});
  const Tensor bias = random({48});
  const Tensor residual = random({40, 48});
  const std::vector<std::pair<OpCode, std::vector<Tensor>>> calls = {
      {OpCode::linear, {x, weight, bias}},
      {OpCode::linear_add, {x, weight, bias, residual}},
      {OpCode::linear_silu_and_mul, {x, weight, bias}},
      {OpCode::lm_head, {x, weight, ints({40})}},
  };
  for (const auto& [code, inputs] : calls) {
    SCOPED_TRACE(op_name(code));
    const uint64_t before = num_products();
    const Tensor eager = run(executor_, code, inputs);
    EXPECT_EQ(num_products() - before, 1U);
    expect_close(eager, run(own_kernels_, code, inputs));
    expect_same_bits(replay(code, inputs), eager);
    EXPECT_EQ(num_products() - before, 2U);
  }
  const Tensor product = run(executor_, OpCode::linear, {x, weight, bias});
  expect_same_bits(run(executor_, OpCode::linear_add, {x, weight, bias, residual}),
                   run(executor_, OpCode::add, {residual, product}));
  expect_same_bits(run(executor_, OpCode::linear_silu_and_mul, {x, weight, bias}),
                   run(executor_, OpCode::silu_and_mul, {product}));
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

TEST_P(CublasLt, leaves_few_rows_odd_addresses_and_unknown_shapes_to_our_own_kernels) {
  const Tensor x = random({40, 48});
  const Tensor weight = random({24, 48});
  const auto expect_own = [&](const Tensor& rows) {
    expect_same_bits(run(executor_, OpCode::linear, {rows, weight, {}}),
                     run(own_kernels_, OpCode::linear, {rows, weight, {}}));
    EXPECT_EQ(num_products(), 0U);
  };
  expect_own(x.with_layout({8, 48}, {48, 1}, 0));
  expect_own(random({41 * 48}).with_layout({40, 48}, {48, 1}, 1));
  machine_.cublas_lt().refuse(true);
  expect_own(x);
}

TEST_P(CublasLt, leaves_a_product_to_one_launch_with_its_epilogue_where_two_take_longer) {
  if (dtype() != DType::bf16) GTEST_SKIP() << "only the bytes of the weight decide";
  const auto products_of = [&](OpCode code, int64_t rows, int64_t columns) {
    const uint64_t before = num_products();
    std::vector<Tensor> in = {random({rows, 64}), make({columns, 64}, dtype()), {}};
    std::memset(in[1].data(), 0, in[1].type().bytes());
    if (code == OpCode::linear_add) in.push_back(random({rows, columns}));
    (void)run(executor_, code, in);
    return num_products() - before;
  };
  EXPECT_EQ(products_of(OpCode::linear, 16, 64), 1U) << "there is no epilogue";
  EXPECT_EQ(products_of(OpCode::linear_add, 16, 80'000), 0U);
  EXPECT_EQ(products_of(OpCode::linear_add, 17, 80'000), 1U);
  EXPECT_EQ(products_of(OpCode::linear_add, 9, 100'000), 1U);
  EXPECT_EQ(products_of(OpCode::linear_silu_and_mul, 32, 64), 0U);
  EXPECT_EQ(products_of(OpCode::linear_silu_and_mul, 33, 64), 1U);
}

TEST_P(CublasLt, if_batch_invariance_is_required_any_number_of_rows_has_the_bits_of_one) {
  CudaExecutor invariant{*stream_,
                         *pool_,
                         {.num_multiprocessors = 4,
                          .invariance = BatchInvariance::required,
                          .cublas_lt = &machine_.cublas_lt().api()}};
  const Tensor x = random({257, 72});
  const Tensor weight = random({40, 72});
  const Tensor residual = random({257, 40});
  const auto rows_of = [](const Tensor& tensor, int64_t rows) {
    return tensor.with_layout({rows, tensor.size(1)}, {tensor.size(1), 1}, 0);
  };
  for (const OpCode code : {OpCode::linear, OpCode::linear_add, OpCode::linear_silu_and_mul}) {
    const auto product = [&](int64_t rows) {
      std::vector<Tensor> in = {rows_of(x, rows), weight, {}};
      if (code == OpCode::linear_add) in.push_back(rows_of(residual, rows));
      return run(invariant, code, in);
    };
    const Tensor all = product(257);
    for (const int64_t rows : {1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256}) {
      const Tensor some = product(rows);
      EXPECT_EQ(std::memcmp(some.data(), all.data(), some.type().bytes()), 0)
          << op_name(code) << ", " << rows << " rows";
    }
  }
  EXPECT_EQ(num_products(), 0U);
}

TEST_P(CublasLt, looks_for_algorithms_once_and_keeps_one_for_each_power_of_two) {
  const Tensor weight = random({24, 48});
  (void)run(executor_, OpCode::linear, {random({33, 48}), weight, {}});
  const uint64_t searches = machine_.cublas_lt().num_searches();
  EXPECT_EQ(searches, 13U);
  for (const int64_t rows : {9, 17, 64, 65, 100, 129, 700}) {
    (void)run(executor_, OpCode::linear, {random({rows, 48}), weight, {}});
  }
  EXPECT_EQ(machine_.cublas_lt().num_searches(), searches);
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

TEST_P(CublasLt, only_sums_of_up_to_128_rows_may_be_divided_and_no_row_depends_on_their_number) {
  const Tensor weight = random({24, 48});
  const Tensor x = random({300, 48});
  const auto product = [&](int64_t rows) {
    return run(executor_, OpCode::linear, {x.with_layout({rows, 48}, {48, 1}, 0), weight, {}});
  };
  const auto expect_same = [&](const Tensor& few, const Tensor& many) {
    EXPECT_EQ(std::memcmp(few.data(), many.data(), few.type().bytes()), 0) << few.size(0);
  };
  for (const int64_t most : {16, 32, 64, 128}) expect_same(product(most / 2 + 1), product(most));
  EXPECT_EQ(machine_.cublas_lt().num_divided_products(), 8U);
  expect_same(product(129), product(256));
  (void)product(300);
  EXPECT_EQ(machine_.cublas_lt().num_divided_products(), 8U);
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

TEST_P(CublasLt, decides_and_loads_nothing_in_a_capture) {
  const Tensor x = random({70, 48});
  const Tensor weight = random({24, 48});
  const auto expect_refused = [&](const Tensor& rows) {
    stream_->begin_capture();
    EXPECT_THROW((void)run(executor_, OpCode::linear, {rows, weight, {}}), device::CaptureError);
    stream_->abort_capture();
  };
  const Tensor few = x.with_layout({40, 48}, {48, 1}, 0);
  expect_refused(few);
  const Tensor eager = run(executor_, OpCode::linear, {few, weight, {}});
  expect_same_bits(replay(OpCode::linear, {few, weight, {}}), eager);
  expect_refused(x);  // planned with the others, but its code is not on the GPU yet
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

using CublasLtFailures = CublasLt;

TEST_P(CublasLtFailures, a_failing_call_loses_one_product_and_nothing_else) {
  const Tensor x = random({40, 48});
  const Tensor weight = random({24, 48});
  const Tensor bias = random({24});
  const auto scenario = [&](CudaExecutor& executor) {
    return run(executor, OpCode::linear, {x, weight, bias});
  };
  const CudaExecutorOptions options{.num_multiprocessors = 4,
                                    .cublas_lt = &machine_.cublas_lt().api()};
  const size_t objects = machine_.cublas_lt().num_objects();
  const size_t allocations = machine_.driver().resources().allocations;
  const Tensor want = scenario(executor_);
  uint64_t num_calls = 0;
  {
    CudaExecutor executor(*stream_, *pool_, options);
    machine_.driver().fail_call(0);
    (void)scenario(executor);
    num_calls = machine_.driver().num_calls();
  }
  ASSERT_GT(num_calls, 40U);
  const size_t objects_in_use = machine_.cublas_lt().num_objects();
  for (uint64_t k = 1; k <= num_calls; ++k) {
    CudaExecutor executor(*stream_, *pool_, options);
    machine_.driver().fail_call(k);
    bool has_failed = false;
    try {
      (void)scenario(executor);
    } catch (const device::DeviceError&) {
      has_failed = true;
    }
    const std::string call = machine_.driver().failed_call();
    EXPECT_TRUE(has_failed || call == "cublasLtMatmulPreferenceDestroy") << k << ": " << call;
    machine_.driver().fail_call(0);
    expect_same_bits(scenario(executor), want);
  }
  // This also covers the constructor's own calls.
  for (uint64_t k = 1;; ++k) {
    machine_.driver().fail_call(k);
    try {
      const CudaExecutor executor(*stream_, *pool_, options);
      if (machine_.driver().failed_call().empty()) break;
    } catch (const device::DeviceError&) {
    }
  }
  machine_.driver().fail_call(0);
  EXPECT_EQ(machine_.cublas_lt().num_objects(), objects_in_use);
  EXPECT_EQ(objects_in_use - objects, 4U) << "the first executor's one plan";
  EXPECT_LE(machine_.driver().resources().allocations, allocations + 1) << "and the pool's";
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

TEST_P(CublasLtFailures, after_a_fault_the_context_is_lost_and_the_library_only_failed) {
  const CudaExecutorOptions options{.num_multiprocessors = 4,
                                    .cublas_lt = &machine_.cublas_lt().api()};
  CudaExecutor executor(*stream_, *pool_, options);
  const Tensor x = random({40, 48});
  const Tensor weight = random({24, 48});
  const auto scenario = [&](CudaExecutor& on) { return run(on, OpCode::linear, {x, weight, {}}); };
  (void)scenario(executor);
  for (const bool is_lost : {false, true}) {
    uint64_t k = 1;
    for (bool is_found = false; !is_found; ++k) {
      machine_.driver().fail_call(k,
                                  is_lost ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_NOT_PERMITTED);
      try {
        (void)scenario(executor);
      } catch (const device::DeviceError& error) {
        is_found = machine_.driver().failed_call() == "cublasLtMatmul";
        if (is_found) {
          EXPECT_EQ(error.is_sticky(), is_lost) << error.what();
        }
      }
      ASSERT_NE(machine_.driver().failed_call(), "") << "no product";
    }
  }
  machine_.driver().fail_call(0);
}

INSTANTIATE_TEST_SUITE_P(Types,
                         CublasLt,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

INSTANTIATE_TEST_SUITE_P(Types, CublasLtFailures, testing::Values(DType::bf16));

TEST(CublasLtLibrary, has_every_function_where_the_machine_has_it) {
  const LoadedCublasLt loaded = load_cublas_lt();
  if (loaded.reason.find("cannot open shared object") != std::string::npos) {
    GTEST_SKIP() << loaded.reason;
  }
  EXPECT_EQ(loaded.reason, "");
}

}  // namespace
}  // namespace reprise::kernels::cuda
