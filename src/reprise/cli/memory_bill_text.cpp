#include "reprise/cli/memory_bill_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "reprise/cli/progress.h"

namespace reprise::cli {
namespace {

std::string size_text(int64_t bytes) {
  const std::string sign = bytes < 0 ? "-" : "";
  return sign + format_bytes(static_cast<size_t>(bytes < 0 ? -bytes : bytes));
}

std::string line(std::string_view use, std::string_view size, std::string_view remark) {
  std::string text = fmt::format("  {:<22}{:>11}", use, size);
  if (!remark.empty()) text += fmt::format("  {}", remark);
  return text;
}

std::string measured(std::string_view use, const std::optional<int64_t>& bytes) {
  if (bytes) return line(use, size_text(*bytes), "");
  return line(use, "?", "measured at the start");
}

}  // namespace

std::vector<std::string> memory_bill_lines(const api::MemoryBill& bill) {
  const api::MemoryBudget& budget = bill.budget;
  std::vector<std::string> lines = {fmt::format(
      "Memory: {} of {} may be used", size_text(budget.bytes), size_text(budget.total))};
  if (!budget.limit.empty()) lines.push_back(fmt::format("  limit: {}", budget.limit));
  lines.push_back(line("others", size_text(bill.others), "other programs, driver, code"));
  lines.push_back(line("weights", size_text(bill.weights), ""));
  if (bill.states > 0) lines.push_back(line("states", size_text(bill.states), ""));
  lines.push_back(measured("activations", bill.activations));
  lines.push_back(measured("graphs", bill.graphs));
  lines.push_back(measured("buffers", bill.buffers));
  lines.push_back(line("KV cache",
                       size_text(bill.kv_cache),
                       fmt::format("{}{} blocks of {} tokens",
                                   bill.cache_is_limit ? "at most: " : "",
                                   bill.num_blocks - 1,
                                   bill.block_size)));
  lines.push_back(line("rest", size_text(bill.rest()), bill.activations ? "" : "for the unknown"));
  return lines;
}

Json to_json(const api::MemoryBill& bill) {
  const auto optional = [](const std::optional<int64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return {{"budget", bill.budget.bytes},
          {"total", bill.budget.total},
          {"limit", bill.budget.limit},
          {"others", bill.others},
          {"weights", bill.weights},
          {"states", bill.states},
          {"kv_cache", bill.kv_cache},
          {"num_blocks", bill.num_blocks},
          {"activations", optional(bill.activations)},
          {"graphs", optional(bill.graphs)},
          {"buffers", optional(bill.buffers)},
          {"rest", bill.rest()},
          {"cache_is_limit", bill.cache_is_limit}};
}

Json to_json(const api::StartupReport& report) {
  Json bill = to_json(api::memory_bill(report));
  bill["reported"] = report.memory.reported;
  return bill;
}

}  // namespace reprise::cli
