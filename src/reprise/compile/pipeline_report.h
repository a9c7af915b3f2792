#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::compile {

/// What one pass did to one program.
struct PassRun {
  std::string pass;
  size_t num_matches = 0;
  size_t num_nodes = 0;     // after the pass
  double microseconds = 0;  // time of the pass, without verification
};

struct PipelineReport {
  size_t num_nodes = 0;  // before the first pass
  std::vector<PassRun> passes;

  /// The number of matches, summed over all passes of that name.
  [[nodiscard]] size_t num_matches(std::string_view pass) const;
  /// A table with one line per pass.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace reprise::compile
