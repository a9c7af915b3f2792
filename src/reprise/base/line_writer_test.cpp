#include "reprise/base/line_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace reprise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LineWriterTest : public ::testing::Test {
 protected:
  LineWriterTest() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~LineWriterTest() override {
    close_reader();
    if (ends_[1] >= 0) ::close(ends_[1]);
  }

  void close_reader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }
  static uint64_t count(std::string_view text, std::string_view part) {
    uint64_t found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++found;
    return found;
  }
  /// Reads until at least `num_lines` whole lines have come.
  std::string read_lines(int64_t num_lines) {
    std::string text;
    std::array<char, 4096> piece{};
    while (std::count(text.begin(), text.end(), '\n') < num_lines || !text.ends_with('\n')) {
      const ssize_t num_bytes = ::read(ends_[0], piece.data(), piece.size());
      if (num_bytes <= 0) break;
      text.append(piece.data(), static_cast<size_t>(num_bytes));
    }
    return text;
  }

  std::array<int, 2> ends_{-1, -1};
};

TEST_F(LineWriterTest, writes_lines_in_order) {
  LineWriter lines(ends_[1]);
  lines.write("one\n");
  lines.write("two\n");
  EXPECT_TRUE(lines.flush(seconds(300)));
  EXPECT_EQ(read_lines(2), "one\ntwo\n");
  EXPECT_EQ(lines.num_dropped(), 0U);
}

TEST_F(LineWriterTest, drops_lines_of_a_log_that_is_not_read_and_says_how_many) {
  LineWriter lines(ends_[1], 1000);
  constexpr uint64_t kNumLines = 20000;  // more than the pipe and the queue hold together
  for (uint64_t i = 0; i < kNumLines; ++i) lines.write(fmt::format("line {}\n", i));
  const uint64_t num_dropped = lines.num_dropped();
  ASSERT_GT(num_dropped, 0U);
  std::string text;
  uint64_t num_seen = 0;
  uint64_t num_told = 0;
  while (num_seen + num_told < kNumLines) {
    text = read_lines(1);
    ASSERT_FALSE(text.empty());
    num_seen += count(text, "line ");
    for (size_t at = 0; (at = text.find("WARNING:  ", at)) != std::string::npos; ++at) {
      num_told += std::stoull(text.substr(at + 10));
    }
  }
  EXPECT_EQ(num_told, num_dropped);
  EXPECT_EQ(num_seen, kNumLines - num_dropped);
  lines.write("later\n");
  EXPECT_EQ(read_lines(1), "later\n");
}

TEST_F(LineWriterTest, accepts_the_limit_and_drops_a_line_of_one_byte_more) {
  LineWriter lines(ends_[1], 8);
  lines.write("12345678\n");
  EXPECT_EQ(lines.num_dropped(), 1U);
  lines.write("1234567\n");
  EXPECT_EQ(lines.num_dropped(), 1U);
}

TEST_F(LineWriterTest, ends_although_its_log_is_not_read) {
  auto lines = std::make_unique<LineWriter>(ends_[1]);
  for (int i = 0; i < 20000; ++i) lines->write("a line that nobody reads\n");
  EXPECT_FALSE(lines->flush(milliseconds(1)));
  lines.reset();  // the destructor returns although nothing reads the pipe
  ends_[1] = -1;  // keeps the descriptor open for the thread that still writes to it
  close_reader();
}

TEST_F(LineWriterTest, survives_a_reader_that_is_gone) {
  LineWriter lines(ends_[1]);
  close_reader();
  lines.write("lost\n");
  EXPECT_TRUE(lines.flush(seconds(300)));
}

}  // namespace
}  // namespace reprise
