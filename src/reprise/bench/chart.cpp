#include "reprise/bench/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace reprise::bench {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 300;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 46;
constexpr double kLegendRow = 18;
// Colours that colour-blind readers can tell apart (Okabe and Ito).
constexpr std::array<std::string_view, 8> kColours = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000"};
constexpr std::string_view kStyle =
    "body{font:14px/1.4 system-ui,sans-serif;margin:24px;max-width:1500px;color:#1a1a1a;"
    "background:#fff}pre{background:#f4f4f4;padding:12px;overflow:auto;display:inline-block;"
    "font-size:12.5px}.charts{display:flex;flex-wrap:wrap;gap:20px}"
    "svg{border:1px solid #ddd;background:#fff}";

std::string escape(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

/// Maps values to pixels along one axis, which begins at 0 and ends at a round number.
struct Axis {
  double end = 1;
  double step = 0.2;
  double from = 0;  // pixels
  double to = 0;

  Axis(double largest, double first_pixel, double last_pixel) : from(first_pixel), to(last_pixel) {
    if (!(largest > 0) || !std::isfinite(largest)) largest = 1;
    const double power = std::pow(10, std::floor(std::log10(largest / 5)));
    const double ratio = largest / 5 / power;
    step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
    end = std::ceil(largest / step - 1e-9) * step;
  }
  [[nodiscard]] double at(double value) const { return from + (to - from) * value / end; }
  [[nodiscard]] std::string label(double value) const {
    const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
    return fmt::format("{:.{}f}", value, digits);
  }
};

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escape(text));
}

std::string render_axes(const Axis& x, const Axis& y) {
  std::string svg;
  for (double value = 0; value <= x.end * (1 + 1e-9); value += x.step) {
    svg += fmt::format(
        "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
        x.at(value),
        y.from,
        y.to);
    svg += text_at(x.at(value), y.from + 16, "middle", x.label(value));
  }
  for (double value = 0; value <= y.end * (1 + 1e-9); value += y.step) {
    svg += fmt::format(
        "<line class=\"g\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" x1=\"{1:.1f}\" x2=\"{2:.1f}\"/>\n",
        y.at(value),
        x.from,
        x.to);
    svg += text_at(x.from - 6, y.at(value) + 4, "end", y.label(value));
  }
  return svg;
}

std::string render_series(
    const Series& series, Marks marks, std::string_view colour, const Axis& x, const Axis& y) {
  std::string svg;
  if (marks != Marks::dots && !series.points.empty()) {
    svg +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"", colour);
    double last = y.at(0);
    for (const auto& [px, py] : series.points) {
      if (marks == Marks::steps) svg += fmt::format("{:.1f},{:.1f} ", x.at(px), last);
      last = y.at(py);
      svg += fmt::format("{:.1f},{:.1f} ", x.at(px), last);
    }
    svg += "\"/>\n";
  }
  if (marks == Marks::dots || marks == Marks::dotted_line) {
    const double radius = marks == Marks::dots ? 2 : 4;
    for (const auto& [px, py] : series.points) {
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n",
                         x.at(px),
                         y.at(py),
                         radius,
                         colour);
    }
  }
  return svg;
}

}  // namespace

Series cumulative(std::string name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Series series{.name = std::move(name)};
  const size_t stride = values.size() / kMaxChartPoints + 1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % stride != 0 && i + 1 != values.size()) continue;
    series.points.emplace_back(
        values[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return series;
}

std::string render_chart(const Chart& chart) {
  double largest_x = 0;
  double largest_y = 0;
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      largest_x = std::max(largest_x, x);
      largest_y = std::max(largest_y, y);
    }
  }
  const bool has_legend = chart.series.size() > 1;
  const double legend = has_legend ? kLegendRow * static_cast<double>(chart.series.size()) : 0;
  const double height = kHeight + legend;
  const Axis x(largest_x, kLeft, kWidth - kRight);
  const Axis y(largest_y, kHeight - kBottom, kTop);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" "
      "role=\"img\" aria-label=\"{2}\" font-family=\"system-ui,sans-serif\" font-size=\"11.5\">\n"
      "<style>.g{{stroke:#e3e3e3}}</style>\n",
      kWidth,
      height,
      escape(chart.title));
  svg += fmt::format("<text x=\"{}\" y=\"20\" font-size=\"14\" font-weight=\"600\">{}</text>\n",
                     kLeft,
                     escape(chart.title));
  svg += render_axes(x, y);
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", chart.x_label);
  svg += fmt::format(
      "<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (kTop + kHeight - kBottom) / 2,
      escape(chart.y_label));
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    svg += render_series(chart.series[i], chart.marks, colour, x, y);
    if (!has_legend) continue;
    const double row = kHeight + kLegendRow * static_cast<double>(i) + 6;
    svg += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n",
                       kLeft,
                       row - 5,
                       colour);
    svg += text_at(kLeft + 20, row, "start", chart.series[i].name);
  }
  return svg + "</svg>\n";
}

std::string render_page(const std::string& title,
                        const std::string& text,
                        const std::vector<Chart>& charts) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<pre>{2}</pre>\n<div class=\"charts\">\n",
      escape(title),
      kStyle,
      escape(text));
  for (const Chart& chart : charts) page += render_chart(chart);
  return page + "</div>\n</body>\n</html>\n";
}

}  // namespace reprise::bench
