#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Reads the options in a YAML file: long names as keys ('_' as '-'), a list for an option that is
/// repeated, a map for an option that takes JSON, true and false for a switch.
/// \throws InvalidArgument with file and line: no such file, not YAML, an unknown key (with the
/// nearest name), a key given twice, a value of the wrong kind
[[nodiscard]] std::vector<Assignment> read_config_file(const OptionTable& table,
                                                       const std::filesystem::path& path);

/// The same for the file's text; `file_name` is for messages.
[[nodiscard]] std::vector<Assignment> parse_config(const OptionTable& table,
                                                   std::string_view text,
                                                   std::string_view file_name);

/// `text` as a YAML scalar that reads back as the same text.
[[nodiscard]] std::string to_yaml_scalar(std::string_view text);

}  // namespace reprise::cli
