#include "reprise/cli/progress_line.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace reprise::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ProgressText, has_a_rate_and_the_time_left_once_they_say_something) {
  EXPECT_EQ(progress_text(3, 12, milliseconds(900), ProgressUnit::count),
            "[#####...............] 3/12");
  EXPECT_EQ(progress_text(3, 12, seconds(2), ProgressUnit::count),
            "[#####...............] 3/12  1.5/s  6 s left");
  EXPECT_EQ(progress_text(0, 12, seconds(9), ProgressUnit::count), "[....................] 0/12");
  EXPECT_EQ(progress_text(12, 12, seconds(9), ProgressUnit::count), "[####################] 12/12");
}

TEST(ProgressText, long_times_have_minutes_and_hours) {
  EXPECT_TRUE(progress_text(1, 60, seconds(1), ProgressUnit::count).ends_with("  59 s left"));
  EXPECT_TRUE(progress_text(1, 61, seconds(1), ProgressUnit::count).ends_with("  1:00 left"));
  EXPECT_TRUE(progress_text(1, 188, seconds(1), ProgressUnit::count).ends_with("  3:07 left"));
  EXPECT_TRUE(progress_text(1, 3724, seconds(1), ProgressUnit::count).ends_with("  1:02:03 left"));
}

TEST(ProgressText, bytes_have_their_units) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  EXPECT_EQ(progress_text(512 * kMib, 2048 * kMib, seconds(4), ProgressUnit::bytes),
            "[#####...............] 512.0 MiB of 2.0 GiB  128.0 MiB/s  12 s left");
}

class ProgressLineTest : public ::testing::Test {
 protected:
  ProgressLineTest() : file_(std::tmpfile()) {}
  ~ProgressLineTest() override { std::fclose(file_); }

  std::string written() {
    EXPECT_EQ(std::fseek(file_, 0, SEEK_SET), 0);
    std::string text(100'000, ' ');
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }
  static int num_draws(const std::string& text) {
    int count = 0;
    for (size_t at = 0; (at = text.find("\r\033[KWork: ", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  std::FILE* file_;
  ProgressLine::Clock::time_point now_{seconds(1000)};
};

TEST_F(ProgressLineTest, draws_at_most_ten_times_a_second) {
  {
    ProgressLine line("Work", ProgressUnit::count, file_, [this] { return now_; });
    for (uint64_t i = 0; i < 3000; ++i) {  // for three seconds
      line.update(i, 5000);
      now_ += milliseconds(1);
    }
  }
  EXPECT_EQ(num_draws(written()), 30);
}

TEST_F(ProgressLineTest, is_gone_when_all_is_done) {
  ProgressLine line("Work", ProgressUnit::count, file_, [this] { return now_; });
  line.update(1, 2, "detail");
  line.update(2, 2);
  line.clear();
  EXPECT_EQ(written(), "\r\033[KWork: [##########..........] 1/2  detail\r\033[K");
}

}  // namespace
}  // namespace reprise::cli
