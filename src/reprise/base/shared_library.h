#pragma once

#include <filesystem>
#include <string>

namespace reprise {

/// Why a file is no complete shared library, as a sentence without a subject; empty when it is one.
///
/// dlopen() maps the parts that the header of the file names, and reads them: a file that was cut
/// short, for example by a full disk or a broken copy, ends the process with SIGBUS. This check
/// reads only the headers, and compares the places that they name with the size of the file.
[[nodiscard]] std::string why_not_loadable(const std::filesystem::path& path);

}  // namespace reprise
