#pragma once

#include <filesystem>
#include <string_view>

namespace reprise::cli {

/// Checks that a result can be written to `path`, before the work is done whose result it is.
/// Changes no file. An empty path means no file. \throws InvalidArgument naming the option
void require_writable(std::string_view option, const std::filesystem::path& path);

}  // namespace reprise::cli
