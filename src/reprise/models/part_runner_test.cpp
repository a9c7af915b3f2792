#include "reprise/models/part_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/device/cpu/cpu_device.h"

namespace reprise::models {
namespace {

class PartRunnerTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<device::Device> device_ =
      device::create_cpu_device({.num_threads = GetParam(), .allow_oversubscription = true});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
};

TEST_P(PartRunnerTest, runs_each_part_once) {
  PartRunner runner(*stream_);
  for (const int64_t parts : {0, 1, 2, 3, 5000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(parts));
    runner.run(parts, [&](int64_t part) { ++runs[static_cast<size_t>(part)]; });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
  }
}

// Every run throws the same error, whichever worker is faster.
TEST_P(PartRunnerTest, throws_the_exception_of_the_lowest_part) {
  PartRunner runner(*stream_);
  for (int i = 0; i < 100; ++i) {
    std::atomic<int> lower{0};
    try {
      runner.run(50, [&](int64_t part) {
        if (part < 20) ++lower;
        if (part == 20 || part == 21 || part == 40) throw std::runtime_error(std::to_string(part));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "20");
    }
    EXPECT_EQ(lower, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, PartRunnerTest, testing::Values(1, 2, 7));

}  // namespace
}  // namespace reprise::models
