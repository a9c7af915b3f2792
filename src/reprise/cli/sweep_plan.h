#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::cli {

/// One point of one side of a grid: a name, and what it adds to the command.
struct SweepPoint {
  std::string name;
  std::vector<std::string> arguments;
};

/// Of a JSON array of objects, or of an object of named objects; a file's, or the text itself.
/// Members are options: {"max_num_seqs": 8} adds --max-num-seqs 8, true and false are switches, and
/// what is no plain value is handed on as JSON. Nothing: one point that adds nothing.
/// \throws InvalidArgument naming `option`
[[nodiscard]] std::vector<SweepPoint> parse_sweep_points(std::string_view option,
                                                         const std::string& text);

/// A command line cut into words, as shells do with spaces, quotes and backslashes; nothing is
/// expanded. \throws InvalidArgument naming `option` when a quote is open
[[nodiscard]] std::vector<std::string> split_words(std::string_view option, std::string_view text);

}  // namespace reprise::cli
