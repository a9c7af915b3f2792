#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/startup_report.h"
#include "reprise/base/log.h"

namespace reprise::cli {

/// Where a start-up's time went, longest first, and the rest as "other". Shares are in tenths of a
/// percent and sum to exactly 1000.
struct StartupShare {
  std::string name;
  double seconds = 0;
  int tenths_of_percent = 0;
};
[[nodiscard]] std::vector<StartupShare> startup_budget(const api::StartupReport& report);

/// Start-up as vLLM logs it, line by line, with its words: scripts search for them.
void log_startup(const Log& log, const api::StartupReport& report, std::string_view model);

}  // namespace reprise::cli
