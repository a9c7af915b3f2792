#include "reprise/server/metrics/cudagraph_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace reprise::server {
namespace {

using Row = cudagraph::DispatchLedger::Row;
using Cells = std::array<std::string, 5>;

Cells cells_of(const Row& row) {
  return {fmt::to_string(row.unpadded_tokens),
          fmt::to_string(row.padded_tokens),
          fmt::to_string(row.padded_tokens - row.unpadded_tokens),
          std::string(cudagraph::to_string(row.mode)),
          fmt::to_string(row.count)};
}

bool is_same_line(const Row& a, const Row& b) {
  return a.unpadded_tokens == b.unpadded_tokens && a.mode == b.mode;
}

std::string line_of(const Cells& cells, const std::array<size_t, 5>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += fmt::format("| {:<{}} ", cells[i], widths[i]);
  return line + "|\n";
}

}  // namespace

CudagraphLog::CudagraphLog(cudagraph::CudagraphMode mode, std::span<const int32_t> capture_sizes)
    : settings_(
          fmt::format("**CUDAGraph Config Settings:**\n\n- Mode: {}\n- Capture sizes: [{}]\n\n"
                      "**CUDAGraph Stats:**\n\n",
                      cudagraph::to_string(mode),
                      fmt::join(capture_sizes, ", "))) {}

std::optional<std::string> CudagraphLog::next_table(Rows since_start) {
  std::vector<Row> rows(since_start.begin(), since_start.end());
  for (Row& row : rows) {
    const auto told =
        std::ranges::find_if(told_, [&row](const Row& other) { return is_same_line(row, other); });
    if (told != told_.end()) row.count -= told->count;
  }
  told_.assign(since_start.begin(), since_start.end());
  std::erase_if(rows, [](const Row& row) { return row.count == 0; });
  if (rows.empty()) return std::nullopt;
  std::ranges::stable_sort(rows, std::ranges::greater{}, &Row::count);

  std::vector<Cells> lines = {
      {"Unpadded Tokens", "Padded Tokens", "Num Paddings", "Runtime Mode", "Count"}};
  std::ranges::transform(rows, std::back_inserter(lines), cells_of);
  std::array<size_t, 5> widths{};
  for (const Cells& cells : lines) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string table = settings_ + line_of(lines[0], widths);
  for (const size_t width : widths) table += fmt::format("|{:-<{}}", "", width + 2);
  table += "|\n";
  for (size_t i = 1; i < lines.size(); ++i) table += line_of(lines[i], widths);
  return table;
}

}  // namespace reprise::server
