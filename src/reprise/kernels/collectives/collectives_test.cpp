#include "reprise/kernels/collectives/collectives.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/tensor/ops.h"
#include "tests/support/parallel/local_transport.h"
#include "tests/support/parallel/rank_values.h"

namespace reprise::kernels {
namespace {

// One rank: a device, a stream and an executor of its own, in a thread.
class RankMachine {
 public:
  RankMachine(int rank, const std::shared_ptr<parallel::LocalHub>& hub)
      : ranks_(std::make_unique<parallel::LocalTransport>(hub, rank), {}),
        device_(device::create_cpu_device({.num_threads = 1})),
        stream_(device_->create_stream()),
        pool_(device_->create_pool()),
        executor_(*stream_, *pool_, kernel_table(Isa::scalar)) {
    executor_.set_rank_groups({&ranks_, nullptr});
  }

  [[nodiscard]] Tensor make(DType dtype, Shape shape) { return executor_.allocate({dtype, shape}); }
  [[nodiscard]] device::Stream& stream() { return *stream_; }
  [[nodiscard]] device::Device& device() { return *device_; }
  [[nodiscard]] parallel::Communicator& ranks() { return ranks_; }

 private:
  parallel::Communicator ranks_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  CpuExecutor executor_;
};

template <typename T>
void expect_sum_in_the_order_of_ranks(int size, int64_t rows, int64_t width) {
  parallel::run_ranks(size, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    RankMachine machine(rank, hub);
    const Tensor x = machine.make(DTypeOf<T>::value, {rows, width});
    const std::vector<T> mine = values_of<T>(rank, rows * width);
    std::memcpy(x.data(), mine.data(), x.type().bytes());
    const Tensor sum = ops::all_reduce(x, size);
    machine.stream().synchronize();
    std::vector<std::vector<T>> all;
    for (int peer = 0; peer < size; ++peer) all.push_back(values_of<T>(peer, rows * width));
    for (size_t i = 0; i < mine.size(); ++i) {
      float want = to_float(all[0][i]);
      for (size_t peer = 1; peer < all.size(); ++peer) want += to_float(all[peer][i]);
      T rounded;
      store_element(&rounded, want);
      // The test compares bits, because two zeros may differ.
      const void* found = sum.data_as<T>() + i;
      ASSERT_EQ(std::memcmp(static_cast<const void*>(&rounded), found, sizeof(T)), 0)
          << "element " << i;
    }
  });
}

TEST(Collectives, all_reduce_adds_in_the_order_of_the_ranks_and_rounds_once) {
  for (const int size : {1, 2, 3, 4}) {
    SCOPED_TRACE(size);
    expect_sum_in_the_order_of_ranks<float>(size, 3, 65);
    expect_sum_in_the_order_of_ranks<BFloat16>(size, 3, 65);
    expect_sum_in_the_order_of_ranks<Float16>(size, 2, 33);
  }
  expect_sum_in_the_order_of_ranks<float>(2, 3, 4099);  // several blocks of the sum
}

// A matrix of random numbers that depend only on `seed`.
template <typename T>
Tensor values_on(RankMachine& machine, int seed, int64_t rows, int64_t width) {
  const Tensor x = machine.make(DTypeOf<T>::value, {rows, width});
  const std::vector<T> values = values_of<T>(seed, rows * width);
  std::memcpy(x.data(), values.data(), x.type().bytes());
  return x;
}

void expect_same_bits(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0);
}

template <typename T>
void expect_fused_all_reduce_has_the_bits_of_its_parts(int size, int64_t rows, int64_t width) {
  parallel::run_ranks(size, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    RankMachine machine(rank, hub);
    const Tensor x = values_on<T>(machine, rank, rows, width);
    const Tensor residual = values_on<T>(machine, 20, rows, width);
    Tensor weight = machine.make(DTypeOf<T>::value, {width});
    std::memcpy(weight.data(), values_of<T>(30, width).data(), weight.type().bytes());
    const Tensor reduced = ops::all_reduce(x, size);
    const auto [want, want_sum] = ops::fused_add_rms_norm(reduced, residual, weight, 1e-5F);
    const auto [got, got_sum] =
        ops::fused_all_reduce_add_rms_norm(x, residual, weight, 1e-5F, size);
    const Tensor want_alone = ops::rms_norm(reduced, weight, 1e-5F);
    const auto [alone, alone_sum] = ops::fused_all_reduce_add_rms_norm(x, {}, weight, 1e-5F, size);
    machine.stream().synchronize();
    expect_same_bits(got, want);
    expect_same_bits(got_sum, want_sum);
    expect_same_bits(alone, want_alone);
    expect_same_bits(alone_sum, reduced);
  });
}

TEST(Collectives, the_fused_all_reduce_has_the_bits_of_its_parts) {
  for (const int size : {1, 2, 3, 4}) {
    SCOPED_TRACE(size);
    expect_fused_all_reduce_has_the_bits_of_its_parts<float>(size, 3, 65);
    expect_fused_all_reduce_has_the_bits_of_its_parts<BFloat16>(size, 5, 96);
    expect_fused_all_reduce_has_the_bits_of_its_parts<Float16>(size, 1, 33);
  }
  // Several rows in a block, several blocks, and rows that are wider than a block.
  expect_fused_all_reduce_has_the_bits_of_its_parts<BFloat16>(2, 200, 64);
  expect_fused_all_reduce_has_the_bits_of_its_parts<float>(2, 2, 5000);
}

TEST(Collectives, reduce_scatter_gives_each_rank_its_rows_of_the_sum) {
  for (const int size : {1, 2, 3}) {
    parallel::run_ranks(size, [size](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
      constexpr int64_t kRows = 3;  // of a rank
      constexpr int64_t kWidth = 1500;
      RankMachine machine(rank, hub);
      const Tensor x = machine.make(DType::f32, {size * kRows, kWidth});
      const std::vector<float> mine = values_of<float>(rank, size * kRows * kWidth);
      std::memcpy(x.data(), mine.data(), x.type().bytes());
      const Tensor sum = ops::reduce_scatter(x, size);
      machine.stream().synchronize();
      ASSERT_EQ(sum.shape(), (Shape{kRows, kWidth}));
      std::vector<std::vector<float>> all;
      for (int peer = 0; peer < size; ++peer) {
        all.push_back(values_of<float>(peer, size * kRows * kWidth));
      }
      for (size_t i = 0; i < static_cast<size_t>(kRows * kWidth); ++i) {
        const size_t at = static_cast<size_t>(rank * kRows * kWidth) + i;
        float want = all[0][at];
        for (size_t peer = 1; peer < all.size(); ++peer) want += all[peer][at];
        ASSERT_EQ(sum.data_as<float>()[i], want) << "element " << i;
      }
    });
  }
}

TEST(Collectives, gather_columns_puts_ranks_side_by_side_and_cuts_the_padding) {
  constexpr int kRanks = 3;
  parallel::run_ranks(kRanks, [](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    RankMachine machine(rank, hub);
    const Tensor x = machine.make(DType::f32, {4, 5});
    for (int i = 0; i < 20; ++i) x.data_as<float>()[i] = static_cast<float>(100 * rank + i);
    const Tensor num_rows = machine.make(DType::i32, {1});
    for (const int rows : {4, 1, 0, 3}) {
      *num_rows.data_as<int32_t>() = rows;
      const Tensor out = ops::gather_columns(x, num_rows, kRanks, 13);
      machine.stream().synchronize();
      ASSERT_EQ(out.shape(), (Shape{4, 13}));
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < 13; ++column) {
          const int want = 100 * (column / 5) + row * 5 + column % 5;
          ASSERT_EQ(out.data_as<float>()[row * 13 + column], static_cast<float>(want));
        }
      }
    }
  });
}

TEST(Collectives, a_replay_exchanges_anew) {
  parallel::run_ranks(2, [](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    RankMachine machine(rank, hub);
    const Tensor x = machine.make(DType::f32, {2, 8});
    machine.stream().begin_capture();
    // Two ops that do not depend on each other must have the same order on both ranks.
    const Tensor sum = ops::all_reduce(x, 2);
    const Tensor rows = ops::all_gather(x, 2);
    const auto graph = machine.device().instantiate(*machine.stream().end_capture());
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 16; ++i) {
        x.data_as<float>()[i] = static_cast<float>(round * 10 + i) * static_cast<float>(rank + 1);
      }
      graph->launch(machine.stream());
      machine.stream().synchronize();
      for (int i = 0; i < 16; ++i) {
        ASSERT_EQ(sum.data_as<float>()[i], static_cast<float>(round * 10 + i) * 3.0F);
        ASSERT_EQ(rows.data_as<float>()[16 + i], static_cast<float>(round * 10 + i) * 2.0F);
      }
    }
    machine.ranks().check();
  });
}

TEST(Collectives, are_refused_without_the_ranks_that_the_op_needs) {
  parallel::run_ranks(2, [](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    RankMachine machine(rank, hub);
    const Tensor x = machine.make(DType::f32, {2, 8});
    EXPECT_THROW((void)ops::all_reduce(x, 3), InvalidArgument);
    EXPECT_THROW((void)ops::all_gather_linear(x, x, {}, 2), InvalidArgument);
  });
}

}  // namespace
}  // namespace reprise::kernels
