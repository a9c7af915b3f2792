#include "reprise/bench/chart.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprise::bench {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Chart, draws_every_series_and_names_it) {
  const std::string svg = render_chart(
      {"a < b", "x", "y", Marks::line, {{"one", {{0, 0}, {1, 2}}}, {"two & three", {{0, 1}}}}});
  EXPECT_EQ(count(svg, "<polyline"), 2U);
  EXPECT_EQ(count(svg, ">one</text>"), 1U);
  EXPECT_EQ(count(svg, ">two &amp; three</text>"), 1U);
  EXPECT_EQ(count(svg, "a &lt; b</text>"), 1U);
}

TEST(Chart, puts_the_origin_and_the_largest_value_inside) {
  const std::string svg = render_chart({"t", "x", "y", Marks::dots, {{"s", {{0, 0}, {10, 50}}}}});
  EXPECT_NE(svg.find("<circle cx=\"64.0\" cy=\"254.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("<circle cx=\"704.0\" cy=\"34.0\""), std::string::npos) << svg;
}

TEST(Chart, of_nothing_still_has_axes) {
  for (const double value : {0.0, -1.0}) {
    const std::string svg = render_chart({"t", "x", "y", Marks::line, {{"s", {{value, value}}}}});
    EXPECT_GT(count(svg, "class=\"g\""), 4U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

TEST(Page, needs_nothing_but_itself) {
  const std::string page = render_page("title", "<script>", {{"t", "x", "y", Marks::line, {}}});
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
}

}  // namespace
}  // namespace reprise::bench
