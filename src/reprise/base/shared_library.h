#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// The reason why a file is not a complete shared library, as a sentence without a subject; empty
/// when the library is complete.
///
/// dlopen() maps the parts that the file's header names, and reads them. If the file was cut short,
/// for example by a full disk or a broken copy, this read ends the process with SIGBUS. This check
/// reads only the headers and compares the offsets in them with the size of the file.
[[nodiscard]] std::string why_not_loadable(const std::filesystem::path& path);

/// The paths at which a plug-in with this file name may lie: next to the running executable, in lib
/// and in ../lib from there, then the same for the library that contains this code. In a Python
/// process that library is the extension module.
[[nodiscard]] std::vector<std::filesystem::path> plugin_paths(std::string_view file_name);

}  // namespace reprise
