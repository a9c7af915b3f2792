#pragma once

#include <string>
#include <vector>

#include "reprise/bench/chart.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds --plot FILE. `path` must outlive the parse; empty: no page is wanted.
void add_plot_option(OptionTable& table, std::string help, std::string& path);

/// Writes a page with the charts below the text; writes nothing if `path` is empty. Call
/// require_writable("--plot", path) before the work. \throws Error when the page cannot be written
void write_plot(const std::string& path,
                const std::string& title,
                const std::string& text,
                const std::vector<bench::Chart>& charts);

}  // namespace reprise::cli
