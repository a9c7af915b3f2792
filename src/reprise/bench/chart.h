#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reprise::bench {

/// One line or cloud of points of a chart.
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
  std::vector<Series> series;  // told apart by colour; at most eight
};

/// The chart as an SVG element, sized for a page.
[[nodiscard]] std::string render_chart(const Chart& chart);

/// A page that loads nothing else. `text` stands above the charts, unchanged.
[[nodiscard]] std::string render_page(const std::string& title,
                                      const std::string& text,
                                      const std::vector<Chart>& charts);

}  // namespace reprise::bench
