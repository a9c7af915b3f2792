#include "reprise/kernels/cuda/nccl_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/ops.h"
#include "tests/support/fake_cuda/gpu_ranks_fixture.h"
#include "tests/support/parallel/rank_values.h"

// Ranks whose GPUs are fakes in one process. The sums of the CPU are the oracle: in the order of
// the ranks, in float32, rounded once.
namespace reprise::kernels::cuda {
namespace {

using parallel::LocalHub;
using parallel::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Exchanges of tensors, on the GPUs of the machine if there is a driver.
class RankOps : public ::testing::Test {
 protected:
  static constexpr int kMostRanks = 4;
  void SetUp() override {
    if (num_gpus_for_ranks() < kMostRanks) GTEST_SKIP() << "needs " << kMostRanks << " GPUs";
  }
};

GpuRanksMachine machine_of(int num_gpus) {
  return GpuRanksMachine(num_gpus, MachineKind::real_if_there);
}

template <typename T>
Tensor make(GpuRank& rank, const std::vector<T>& values, const Shape& shape, DType dtype) {
  const Tensor tensor = rank.executor().allocate({dtype, shape});
  rank.stream().copy_from_host(tensor.data(), values.data(), values.size() * sizeof(T));
  return tensor;
}

template <typename T>
Tensor values_on(GpuRank& rank, int seed, int64_t rows, int64_t width) {
  return make(rank, values_of<T>(seed, rows * width), {rows, width}, DTypeOf<T>::value);
}

template <typename T>
std::vector<T> read(GpuRank& rank, const Tensor& tensor) {
  std::vector<T> values(tensor.type().bytes() / sizeof(T));
  rank.stream().copy_to_host(values.data(), tensor.data(), tensor.type().bytes());
  return values;
}

template <typename T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(T)), 0);
}

template <typename T>
std::vector<T> sum_of_ranks_of(int size, int64_t count) {
  std::vector<std::vector<T>> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(values_of<T>(rank, count));
  std::vector<T> sums(static_cast<size_t>(count));
  for (size_t i = 0; i < sums.size(); ++i) {
    float sum = to_float(all[0][i]);
    for (size_t rank = 1; rank < all.size(); ++rank) sum += to_float(all[rank][i]);
    store_element(&sums[i], sum);
  }
  return sums;
}

template <typename T>
void expect_the_sum_of_the_cpu(int size, int64_t rows, int64_t width) {
  SCOPED_TRACE(::testing::Message() << size << " ranks, " << rows << " x " << width);
  GpuRanksMachine machine = machine_of(size);
  const std::vector<T> want = sum_of_ranks_of<T>(size, rows * width);
  run_ranks(size, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    const Tensor x = values_on<T>(rank, number, rows, width);
    expect_same_bits(read<T>(rank, ops::all_reduce(x, size)), want);
  });
  EXPECT_THAT(machine.misuses(), IsEmpty());
}

TEST_F(RankOps, all_reduce_adds_in_the_order_of_the_ranks_and_rounds_once) {
  for (const int size : {1, 2, 3, 4}) {
    expect_the_sum_of_the_cpu<float>(size, 3, 65);
    expect_the_sum_of_the_cpu<BFloat16>(size, 3, 65);
    expect_the_sum_of_the_cpu<Float16>(size, 2, 33);
  }
  expect_the_sum_of_the_cpu<BFloat16>(2, 3, 4099);  // several blocks of the sum
}

// From 512 KiB on, three or more ranks add a part each.
TEST_F(RankOps, all_reduce_of_many_bytes_has_the_same_bits) {
  for (const int64_t rows : {63, 64, 65}) {
    expect_the_sum_of_the_cpu<BFloat16>(4, rows, 4096);
    expect_the_sum_of_the_cpu<float>(3, rows, 4096);  // 3 divides only 63 rows
  }
}

template <typename T>
void expect_fused_all_reduce_has_the_bits_of_its_parts(int size, int64_t rows, int64_t width) {
  SCOPED_TRACE(::testing::Message() << size << " ranks, " << rows << " x " << width);
  GpuRanksMachine machine = machine_of(size);
  run_ranks(size, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    const Tensor x = values_on<T>(rank, number, rows, width);
    const Tensor residual = values_on<T>(rank, 20, rows, width);
    const Tensor weight = make(rank, values_of<T>(30, width), {width}, DTypeOf<T>::value);
    const Tensor reduced = ops::all_reduce(x, size);
    const auto [want, want_sum] = ops::fused_add_rms_norm(reduced, residual, weight, 1e-5F);
    const auto [got, got_sum] =
        ops::fused_all_reduce_add_rms_norm(x, residual, weight, 1e-5F, size);
    const Tensor want_alone = ops::rms_norm(reduced, weight, 1e-5F);
    const auto [alone, alone_sum] = ops::fused_all_reduce_add_rms_norm(x, {}, weight, 1e-5F, size);
    expect_same_bits(read<T>(rank, got), read<T>(rank, want));
    expect_same_bits(read<T>(rank, got_sum), read<T>(rank, want_sum));
    expect_same_bits(read<T>(rank, alone), read<T>(rank, want_alone));
    expect_same_bits(read<T>(rank, alone_sum), read<T>(rank, reduced));
  });
  EXPECT_THAT(machine.misuses(), IsEmpty());
}

TEST_F(RankOps, the_fused_all_reduce_has_the_bits_of_its_parts) {
  for (const int size : {1, 2, 3}) {
    expect_fused_all_reduce_has_the_bits_of_its_parts<float>(size, 3, 65);
    expect_fused_all_reduce_has_the_bits_of_its_parts<BFloat16>(size, 5, 96);
    expect_fused_all_reduce_has_the_bits_of_its_parts<Float16>(size, 1, 33);
  }
  // Several rows in a block, several blocks, and rows that a whole block shares.
  expect_fused_all_reduce_has_the_bits_of_its_parts<BFloat16>(2, 200, 64);
  expect_fused_all_reduce_has_the_bits_of_its_parts<float>(2, 2, 5000);
}

TEST_F(RankOps, reduce_scatter_gives_each_rank_its_rows_of_the_sum) {
  constexpr int64_t kRows = 3;  // of a rank
  constexpr int64_t kWidth = 1500;
  for (const int size : {1, 2, 3}) {
    GpuRanksMachine machine = machine_of(size);
    const std::vector<float> all = sum_of_ranks_of<float>(size, size * kRows * kWidth);
    run_ranks(size, [&](int number, const std::shared_ptr<LocalHub>& hub) {
      GpuRank rank(machine, number, hub);
      const Tensor x = values_on<float>(rank, number, size * kRows, kWidth);
      const auto begin = all.begin() + number * kRows * kWidth;
      expect_same_bits(read<float>(rank, ops::reduce_scatter(x, size)),
                       std::vector<float>(begin, begin + kRows * kWidth));
    });
  }
}

TEST_F(RankOps, gather_columns_puts_ranks_side_by_side_and_cuts_the_padding) {
  constexpr int kRanks = 3;
  GpuRanksMachine machine = machine_of(kRanks);
  run_ranks(kRanks, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    std::vector<float> mine;
    for (int i = 0; i < 20; ++i) mine.push_back(static_cast<float>(100 * number + i));
    const Tensor x = make(rank, mine, {4, 5}, DType::f32);
    for (const int rows : {4, 1, 0, 3}) {
      const Tensor num_rows = make(rank, std::vector<int32_t>{rows}, {1}, DType::i32);
      const std::vector<float> out =
          read<float>(rank, ops::gather_columns(x, num_rows, kRanks, 13));
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < 13; ++column) {
          const int want = 100 * (column / 5) + row * 5 + column % 5;
          ASSERT_EQ(out[static_cast<size_t>(row * 13 + column)], static_cast<float>(want));
        }
      }
    }
  });
}

TEST_F(RankOps, number_the_experts_of_a_rank_like_the_cpu) {
  GpuRanksMachine machine = machine_of(1);
  run_ranks(1, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    constexpr int kTokens = 700;  // several blocks
    std::vector<int32_t> experts;
    std::vector<float> weights;
    for (int i = 0; i < kTokens * 4; ++i) {
      experts.push_back(i * 7 % 16);
      weights.push_back(static_cast<float>(i) * 0.5F);
    }
    const auto [local_weights, local_ids] =
        ops::local_experts(make(rank, weights, {kTokens, 4}, DType::f32),
                           make(rank, experts, {kTokens, 4}, DType::i32),
                           5,
                           6);
    const std::vector<float> got_weights = read<float>(rank, local_weights);
    const std::vector<int32_t> got_ids = read<int32_t>(rank, local_ids);
    for (size_t i = 0; i < experts.size(); ++i) {
      const bool is_mine = experts[i] >= 5 && experts[i] < 11;
      ASSERT_EQ(got_ids[i], is_mine ? experts[i] - 5 : -1);
      ASSERT_EQ(got_weights[i], is_mine ? weights[i] : 0.0F);
    }
  });
}

TEST_F(RankOps, a_replay_exchanges_anew) {
  constexpr int kRanks = 3;
  GpuRanksMachine machine = machine_of(kRanks);
  run_ranks(kRanks, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    const Tensor x = rank.executor().allocate({DType::f32, {kRanks, 8}});
    rank.stream().begin_capture();
    const Tensor sum = ops::all_reduce(x, kRanks);
    const Tensor rows = ops::all_gather(x, kRanks);
    const Tensor part = ops::reduce_scatter(x, kRanks);
    const auto graph = rank.device().instantiate(*rank.stream().end_capture());
    for (int round = 0; round < 20; ++round) {
      std::vector<float> mine(size_t{kRanks} * 8);
      for (size_t i = 0; i < mine.size(); ++i) {
        mine[i] =
            static_cast<float>(round * 100 + static_cast<int>(i)) * static_cast<float>(number + 1);
      }
      rank.stream().copy_from_host(x.data(), mine.data(), mine.size() * sizeof(float));
      graph->launch(rank.stream());
      const std::vector<float> sums = read<float>(rank, sum);
      const std::vector<float> all = read<float>(rank, rows);
      const std::vector<float> mine_of_sum = read<float>(rank, part);
      for (size_t i = 0; i < mine.size(); ++i) {
        const auto of_rank_0 = static_cast<float>(round * 100 + static_cast<int>(i));
        ASSERT_EQ(sums[i], of_rank_0 * 6);
        ASSERT_EQ(all[2 * mine.size() + i], of_rank_0 * 3);
      }
      for (size_t i = 0; i < 8; ++i) {
        ASSERT_EQ(mine_of_sum[i], sums[static_cast<size_t>(number) * 8 + i]);
      }
    }
    rank.ranks().check();
  });
  EXPECT_THAT(machine.misuses(), IsEmpty());
}

TEST_F(RankOps, are_refused_without_the_ranks_that_the_op_needs) {
  GpuRanksMachine machine = machine_of(2);
  run_ranks(2, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    const Tensor x = rank.executor().allocate({DType::f32, {2, 8}});
    EXPECT_THROW((void)ops::all_reduce(x, 3), InvalidArgument);
    EXPECT_THROW((void)ops::all_gather_linear(x, x, {}, 2), InvalidArgument);
  });
}

// Rank 1 launches nothing, so without an abort rank 0 would wait for ever.
TEST(NcclRanks, a_lost_rank_is_named_and_ends_the_wait_for_its_gpu) {
  GpuRanksMachine machine(2);
  std::atomic<bool> is_over = false;
  run_ranks(2, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    parallel::CommunicatorOptions options = options_of_gpu_rank(number);
    options.silence = std::chrono::seconds(1);
    GpuRank rank(machine, number, hub, options);
    rank.ranks().barrier(parallel::Operation::start_up);
    if (number == 1) {
      hub->silence(1);
      while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    const Tensor x = rank.executor().allocate({DType::f32, {2, 8}});
    const auto begin = std::chrono::steady_clock::now();
    (void)ops::all_reduce(x, 2);
    rank.stream().synchronize();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    try {
      rank.ranks().check();
      ADD_FAILURE() << "the loss was not noticed";
    } catch (const parallel::RankError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has sent no heartbeat"));
    }
    // Later exchanges neither wait nor reach NCCL.
    (void)ops::all_reduce(x, 2);
    rank.stream().synchronize();
    is_over = true;
  });
  EXPECT_GE(machine.nccl().num_aborts(), 1U);
  EXPECT_THAT(machine.driver().misuses(), IsEmpty());
}

TEST(NcclRanks, an_error_that_nccl_notices_is_a_failure_of_the_ranks) {
  GpuRanksMachine machine(2);
  run_ranks(2, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    rank.ranks().barrier(parallel::Operation::start_up);
    machine.nccl().fail_later(NcclResult::remote_error);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!rank.ranks().has_failed() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    try {
      rank.ranks().check();
      ADD_FAILURE() << "the error was not noticed";
    } catch (const parallel::RankError& error) {
      EXPECT_THAT(error.what(), HasSubstr("noticed an error of NCCL: remote process exited"));
    }
  });
}

TEST(NcclRanks, name_the_rank_with_another_version) {
  GpuRanksMachine machine(2);
  run_ranks(2, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, number),
                                 options_of_gpu_rank(number));
    const auto device = machine.create_device(number);
    try {
      const NcclRanks group(machine.nccl().api(),
                            number == 0 ? 22809 : 22703,
                            dynamic_cast<device::cuda::CudaDevice&>(*device),
                            ranks);
      ADD_FAILURE() << "the difference was not noticed";
    } catch (const parallel::RankError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has NCCL 2.27.3 and rank 0 has NCCL 2.28.9"));
    }
  });
}

TEST(NcclRanks, that_cannot_connect_in_time_say_so) {
  GpuRanksMachine machine(1);
  run_ranks(1, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, number),
                                 options_of_gpu_rank(number));
    const auto device = machine.create_device(number);
    NcclApi api = machine.nccl().api();
    api.comm_init_rank = [](NcclComm**, int, NcclUniqueId, int) {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      return NcclResult::internal_error;
    };
    try {
      const NcclRanks group(api,
                            22809,
                            dynamic_cast<device::cuda::CudaDevice&>(*device),
                            ranks,
                            std::chrono::milliseconds(1000));
      ADD_FAILURE() << "the time-out was not noticed";
    } catch (const parallel::RankError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 could not connect"));
    }
    // The thread that is left behind uses the device.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  });
}

TEST(NcclRanks, two_on_one_gpu_are_refused) {
  GpuRanksMachine machine(2);
  run_ranks(2, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, number),
                                 options_of_gpu_rank(number));
    const auto device = machine.create_device(0);
    EXPECT_THROW(
        NcclRanks(
            machine.nccl().api(), 22809, dynamic_cast<device::cuda::CudaDevice&>(*device), ranks),
        device::DeviceError);
  });
}

// Every call of the driver and of NCCL fails once.
TEST(NcclRanks, a_failed_call_is_an_error_and_loses_nothing) {
  GpuRanksMachine machine(1);
  bool has_failed = true;
  for (uint64_t k = 1; has_failed; ++k) {
    ASSERT_LT(k, 2000U);
    run_ranks(1, [&](int number, const std::shared_ptr<LocalHub>& hub) {
      parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, number),
                                   options_of_gpu_rank(number));
      const auto device = machine.create_device(number);
      machine.driver().fail_call(k);
      bool has_thrown = false;
      try {
        NcclRanks group(
            machine.nccl().api(), 22809, dynamic_cast<device::cuda::CudaDevice&>(*device), ranks);
      } catch (const std::exception&) {
        has_thrown = true;
      }
      has_failed = !machine.driver().failed_call().empty();
      machine.driver().fail_call(0);
      // Objects are released even if their release reports an error.
      EXPECT_TRUE(!has_thrown || has_failed) << "call " << k;
    });
    EXPECT_EQ(machine.nccl().num_communicators(), 0U) << "call " << k;
  }
  EXPECT_THAT(machine.driver().misuses(), IsEmpty());
}

TEST(NcclApi, old_and_unknown_versions_are_refused) {
  EXPECT_EQ(nccl_version_text(23203), "2.32.3");
  EXPECT_EQ(why_not_usable_nccl(22200), "");
  EXPECT_EQ(why_not_usable_nccl(23203), "");
  EXPECT_THAT(why_not_usable_nccl(22105), HasSubstr("2.21.5, and 2.22.0 or a newer version 2"));
  EXPECT_THAT(why_not_usable_nccl(30000), HasSubstr("3.0.0"));
}

// The fake must notice what NCCL would not survive, or the tests above prove nothing.
TEST(FakeNccl, notices_memory_of_the_host) {
  GpuRanksMachine machine(1);
  run_ranks(1, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    std::vector<float> host(64);
    EXPECT_THROW(rank.group().all_gather(rank.stream(), host.data(), host.data(), 32),
                 device::DeviceError);
  });
  EXPECT_THAT(machine.driver().misuses(),
              ::testing::ElementsAre(HasSubstr("of memory that is not the GPU's")));
}

TEST(FakeNccl, notices_ranks_that_run_different_exchanges) {
  GpuRanksMachine machine(2);
  run_ranks(2, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    GpuRank rank(machine, number, hub);
    const device::Buffer mine = rank.device().allocate(4096);
    const device::Buffer all = rank.device().allocate(4096);
    if (number == 0) {
      rank.group().all_gather(rank.stream(), mine.data(), all.data(), 64);
    } else {
      rank.group().all_to_all(rank.stream(), mine.data(), all.data(), 64);
    }
    rank.stream().synchronize();
    rank.ranks().barrier(parallel::Operation::start_up);
  });
  EXPECT_THAT(machine.driver().misuses(), ::testing::Contains(HasSubstr("in kind 2, and rank")));
}

TEST(FakeNccl, notices_a_communicator_that_ends_before_its_graphs) {
  GpuRanksMachine machine(1);
  run_ranks(1, [&](int number, const std::shared_ptr<LocalHub>& hub) {
    std::unique_ptr<device::Graph> graph;
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, number),
                                 options_of_gpu_rank(number));
    const auto device = machine.create_device(number);
    const auto stream = device->create_stream();
    const device::Buffer memory = device->allocate(4096);
    NcclRanks group(
        machine.nccl().api(), 22809, dynamic_cast<device::cuda::CudaDevice&>(*device), ranks);
    stream->begin_capture();
    group.all_gather(*stream, memory.data(), memory.data(), 64);
    graph = stream->end_capture();
    EXPECT_THAT(machine.driver().misuses(), IsEmpty());
  });
  EXPECT_THAT(machine.driver().misuses(),
              ::testing::ElementsAre(HasSubstr("it would wait for ever")));
}

}  // namespace
}  // namespace reprise::kernels::cuda
