#pragma once

#include <filesystem>

namespace reprise::http_client {

/// The file with the root certificates of a system whose root folder is `root`. Empty if OpenSSL
/// finds the certificates by itself, or if the system has none. A program from a package has the
/// OpenSSL of the system that it was built on, and Fedora keeps the certificates elsewhere than
/// Debian.
[[nodiscard]] std::filesystem::path root_certificates_elsewhere(const std::filesystem::path& root);

}  // namespace reprise::http_client
