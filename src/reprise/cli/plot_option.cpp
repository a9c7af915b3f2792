#include "reprise/cli/plot_option.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::cli {

void add_plot_option(OptionTable& table, std::string help, std::string& path) {
  table.add({.name = "plot",
             .group = kResults,
             .value_name = "FILE",
             .help = std::move(help),
             .apply = [&path](std::string_view value) { path = value; }});
}

void write_plot(const std::string& path,
                const std::string& title,
                const std::string& text,
                const std::vector<bench::Chart>& charts) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::trunc);
  file << bench::render_page(title, text, charts);
  file.close();
  if (!file) throw Error(fmt::format("{}: the page cannot be written there", path));
}

}  // namespace reprise::cli
