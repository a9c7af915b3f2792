#include "reprise/cli/exit_deadline.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace reprise::cli {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void wait_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

/// Joins a thread that never ends, as the destructor of a worker does.
struct EndlessWorker {
  ~EndlessWorker() { thread.join(); }
  std::thread thread{wait_for_ever};
};

using ExitDeadlineDeathTest = testing::Test;

TEST_F(ExitDeadlineDeathTest, ends_a_process_whose_destructors_wait_for_ever) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        end_process_after(milliseconds(10), 3);
        const EndlessWorker worker;
      },
      testing::ExitedWithCode(3),
      "did not end in time");
}

TEST_F(ExitDeadlineDeathTest, the_earliest_end_counts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        end_process_after(std::chrono::hours(1), 3);
        end_process_after(milliseconds(10), 4);
        end_process_after(std::chrono::hours(1), 5);
        wait_for_ever();
      },
      testing::ExitedWithCode(4),
      "did not end in time");
}

TEST_F(ExitDeadlineDeathTest, leaves_a_process_alone_that_ends_by_itself) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        end_process_after(std::chrono::hours(1), 3);
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^$");
}

}  // namespace
}  // namespace reprise::cli
