#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace reprise::bench {

/// One line of a chart, or one cloud of points.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

enum class Marks { line, steps, dots, dotted_line };

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  Marks marks = Marks::line;
  std::vector<Series> series;  // each has its own colour; at most eight
};

/// Points per series: keeps the page of a long run small.
inline constexpr size_t kMaxChartPoints = 4000;

/// The distribution of `values`: for each of them, the percentage of values that are not larger.
[[nodiscard]] Series cumulative(std::string name, std::vector<double> values);

/// Renders the chart as an SVG element, sized for a page.
[[nodiscard]] std::string render_chart(const Chart& chart);

/// Renders a page that loads no other file. `text` is printed unchanged above the charts.
[[nodiscard]] std::string render_page(const std::string& title,
                                      const std::string& text,
                                      const std::vector<Chart>& charts);

}  // namespace reprise::bench
