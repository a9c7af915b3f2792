#include "reprise/cli/tuned_products_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace reprise::cli {
namespace {

using Line = std::array<std::string, 6>;

double saved_percent(const kernels::MeasuredRows& measured) {
  return 100 * (1 - measured.microseconds / measured.built_in_microseconds);
}

}  // namespace

std::string changed_products_text(const kernels::ProductTable& table) {
  std::vector<Line> lines = {{"product", "rows", "rule, us", "choice", "us", "saved"}};
  for (const auto& [shape, rows] : table.products()) {
    for (const auto& [count, measured] : rows) {
      if (measured.choice.kernel == kernels::ProductChoice::Kernel::built_in) continue;
      lines.push_back({describe(shape),
                       std::to_string(count),
                       fmt::format("{:.2f}", measured.built_in_microseconds),
                       describe(measured.choice),
                       fmt::format("{:.2f}", measured.microseconds),
                       fmt::format("{:.1f} %", saved_percent(measured))});
    }
  }
  if (lines.size() == 1) return {};
  std::array<size_t, 6> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i)
      widths.at(i) = std::max(widths.at(i), line.at(i).size());
  }
  std::string text;
  for (const Line& line : lines) {
    text += fmt::format("{:<{}}  {:>{}}  {:>{}}  {:<{}}  {:>{}}  {:>{}}\n",
                        line[0],
                        widths[0],
                        line[1],
                        widths[1],
                        line[2],
                        widths[2],
                        line[3],
                        widths[3],
                        line[4],
                        widths[4],
                        line[5],
                        widths[5]);
  }
  return text;
}

Json products_to_json(const kernels::ProductTable& table) {
  Json list = Json::array();
  for (const auto& [shape, rows] : table.products()) {
    for (const auto& [count, measured] : rows) {
      list.push_back({{"product", describe(shape)},
                      {"rows", count},
                      {"choice", describe(measured.choice)},
                      {"us", measured.microseconds},
                      {"built_in_us", measured.built_in_microseconds}});
    }
  }
  return list;
}

}  // namespace reprise::cli
