#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/device/cpu/usable_cores.h"
#include "reprise/device/cuda/cuda_device.h"
#include "reprise/models/part_runner.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

// Weights for a GPU are read by threads of the host.
namespace reprise::models {
namespace {

class CudaPartRunner : public testing::Test {
 protected:
  device::cuda::FakeDriver driver_;
  std::unique_ptr<device::Device> device_ = device::cuda::create_cuda_device(driver_.api());
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  PartRunner runner_{*stream_};
};

TEST_F(CudaPartRunner, runs_each_part_once) {
  for (const int64_t parts : {0, 1, 2, 3, 5000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(parts));
    runner_.run(parts, [&](int64_t part) { ++runs[static_cast<size_t>(part)]; });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST_F(CudaPartRunner, runs_two_parts_side_by_side) {
  if (device::usable_cores().size() < 2) GTEST_SKIP() << "one core has one thread";
  std::mutex mutex;
  std::condition_variable both;
  int num_here = 0;
  // Each part waits for the other one.
  runner_.run(2, [&](int64_t) {
    std::unique_lock lock(mutex);
    ++num_here;
    both.notify_all();
    both.wait(lock, [&] { return num_here == 2; });
  });
  EXPECT_EQ(num_here, 2);
}

TEST_F(CudaPartRunner, throws_the_exception_of_the_lowest_part) {
  for (int i = 0; i < 20; ++i) {
    try {
      runner_.run(50, [&](int64_t part) {
        if (part == 20 || part == 21 || part == 40) throw std::runtime_error(std::to_string(part));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "20");
    }
  }
}

}  // namespace
}  // namespace reprise::models
