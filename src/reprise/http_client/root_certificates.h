#pragma once

#include <filesystem>

namespace reprise::http_client {

/// The file with the root certificates of a system whose root folder is `root`, if they are not
/// where this program's OpenSSL looks by itself; otherwise, and where there are none, empty. A
/// program from a package has the OpenSSL of the system that it was built on, and Fedora keeps them
/// elsewhere than Debian.
[[nodiscard]] std::filesystem::path root_certificates_elsewhere(const std::filesystem::path& root);

}  // namespace reprise::http_client
