#include "reprise/structured_output/number_range.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise::structured_output {
namespace {

/// Matches texts with the EBNF that ranges use: literals, sets like [2-7], groups, `|` and `?`.
class Matcher {
 public:
  explicit Matcher(std::string grammar) : grammar_(std::move(grammar)) {}

  bool matches(const std::string& text) {
    text_ = text;
    at_ = 0;
    return choices({0}).contains(text.size());
  }

 private:
  using Places = std::set<size_t>;  // in the text, where what was read so far can end

  char next() {
    while (at_ < grammar_.size() && grammar_[at_] == ' ') ++at_;
    return at_ < grammar_.size() ? grammar_[at_] : ')';
  }

  Places choices(const Places& from) {
    Places ends = sequence(from);
    while (next() == '|') {
      ++at_;
      ends.merge(sequence(from));
    }
    return ends;
  }

  Places sequence(Places places) {
    while (next() != '|' && next() != ')') {
      Places after = item(places);
      if (next() == '?') {
        ++at_;
        after.merge(places);
      }
      places = std::move(after);
    }
    return places;
  }

  Places item(const Places& from) {
    const char kind = next();
    if (kind == '(') {
      ++at_;
      Places ends = choices(from);
      EXPECT_EQ(next(), ')');
      ++at_;
      return ends;
    }
    const size_t end = grammar_.find(kind == '"' ? '"' : ']', at_ + 1);
    const std::string inside = grammar_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    Places ends;
    for (const size_t place : from) {
      if (kind == '"' && text_.compare(place, inside.size(), inside) == 0) {
        ends.insert(place + inside.size());
      } else if (kind == '[' && place < text_.size() && inside[0] <= text_[place] &&
                 text_[place] <= inside[2]) {
        ends.insert(place + 1);
      }
    }
    return ends;
  }

  std::string grammar_;
  std::string text_;
  size_t at_ = 0;
};

TEST(NumberRange, integers_are_exactly_those_between) {
  std::mt19937 random(1);
  std::vector<std::pair<int64_t, int64_t>> ranges = {
      {0, 0}, {-1, 1}, {-180, 180}, {219, 233}, {-1490, -1453}};
  for (int i = 0; i < 60; ++i) {
    const auto low = static_cast<int64_t>(random() % 4000) - 2000;
    ranges.emplace_back(low, low + static_cast<int64_t>(random() % (i % 2 == 0 ? 30 : 3000)));
  }
  for (const auto& [low, high] : ranges) {
    Matcher range(integer_range(low, high));
    for (int64_t value = low - 40; value <= high + 40; ++value) {
      const std::string text = std::to_string(value);
      EXPECT_EQ(range.matches(text), low <= value && value <= high)
          << text << " in " << low << ".." << high;
    }
    for (const char* text : {"-0", "00", "01", "-01", ""})
      EXPECT_FALSE(range.matches(text)) << text;
  }
}

TEST(NumberRange, decimals_are_exactly_those_between) {
  std::mt19937 random(2);
  std::vector<std::pair<double, double>> ranges = {
      {0, 1}, {-1.5, 2.999999}, {0.000001, 0.999999}, {-0.5, -0.25}};
  for (int i = 0; i < 40; ++i) {
    const double low = (static_cast<double>(random() % 40000) - 20000) / 1000;
    ranges.emplace_back(low, low + static_cast<double>(random() % 30000) / 1000);
  }
  for (const auto& [low, high] : ranges) {
    Matcher range(decimal_range(low, high));
    // The test counts in millionths, so rounding cannot move a text to the other side of an end.
    const long long first = std::llround(low * 1e6);
    const long long last = std::llround(high * 1e6);
    for (int i = 0; i < 500; ++i) {
      const int width = static_cast<int>(random() % 7);
      long long step = 1;
      for (int j = width; j < 6; ++j) step *= 10;
      const long long value = (first / step - 30 + static_cast<long long>(random() % 60)) * step;
      const long long near_end = (last / step - 30 + static_cast<long long>(random() % 60)) * step;
      for (const long long millionths : {value, near_end}) {
        std::string text = std::to_string(std::llabs(millionths) / 1000000);
        if (width > 0)
          text += "." + std::to_string(1000000 + std::llabs(millionths) % 1000000)
                            .substr(1, static_cast<size_t>(width));
        if (millionths < 0) text = "-" + text;
        EXPECT_EQ(range.matches(text), first <= millionths && millionths <= last)
            << text << " in " << low << ".." << high;
      }
    }
    for (const char* text : {"-0", "-0.0", "00.5", "1.", ".5", "0.1234567"}) {
      EXPECT_FALSE(range.matches(text)) << text;
    }
  }
}

}  // namespace
}  // namespace reprise::structured_output
