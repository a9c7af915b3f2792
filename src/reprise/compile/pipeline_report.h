#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::compile {

/// The effect of one pass on one program.
struct PassRun {
  std::string_view pass;
  size_t num_matches = 0;
  size_t num_nodes = 0;     // afterwards
  double microseconds = 0;  // the pass alone
};

struct PipelineReport {
  size_t num_nodes = 0;  // before the first pass
  std::vector<PassRun> passes;

  /// Matches of all passes of that name.
  [[nodiscard]] size_t num_matches(std::string_view pass) const;
  /// The match table: one line per pass.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace reprise::compile
