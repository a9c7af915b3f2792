#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/options/startup_report.h"
#include "reprise/base/log.h"

namespace reprise::cli {

/// One stage's share of the start-up time. Shares come longest first, with the remainder as
/// "other"; they are in tenths of a percent and sum to exactly 1000.
struct StartupShare {
  std::string name;
  double seconds = 0;
  int tenths_of_percent = 0;
};
[[nodiscard]] std::vector<StartupShare> startup_budget(const api::StartupReport& report);

/// Logs the start in vLLM's lines and words, because scripts search for them.
void log_startup(const Log& log, const api::StartupReport& report, std::string_view model);

}  // namespace reprise::cli
