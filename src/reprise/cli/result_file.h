#pragma once

#include <filesystem>
#include <string_view>

namespace reprise::cli {

/// Checks that a result can be written to `path`, before the work that it is the result of. Changes
/// no file. An empty path is none. \throws InvalidArgument naming the option
void require_writable(std::string_view option, const std::filesystem::path& path);

}  // namespace reprise::cli
