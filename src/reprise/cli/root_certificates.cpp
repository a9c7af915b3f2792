#include "reprise/cli/root_certificates.h"

#include <openssl/x509.h>

#include <cstdlib>
#include <string_view>

namespace reprise::cli {
namespace {

// Fedora and Red Hat, openSUSE, Debian, Alpine.
constexpr std::string_view kPlaces[] = {"etc/pki/tls/certs/ca-bundle.crt",
                                        "etc/ssl/ca-bundle.pem",
                                        "etc/ssl/certs/ca-certificates.crt",
                                        "etc/ssl/cert.pem"};

bool is_there(const std::filesystem::path& path) {
  std::error_code error;  // what cannot be looked at cannot be read either
  return std::filesystem::exists(path, error) && !std::filesystem::is_empty(path, error);
}

}  // namespace

std::filesystem::path root_certificates_elsewhere(const std::filesystem::path& root) {
  for (const char* place : {X509_get_default_cert_file(), X509_get_default_cert_dir()}) {
    if (is_there(root / std::filesystem::path(place).relative_path())) return {};
  }
  for (const std::string_view place : kPlaces) {
    if (is_there(root / place)) return root / place;
  }
  return {};
}

void use_root_certificates_of_system() {
  if (std::getenv(X509_get_default_cert_file_env()) != nullptr ||
      std::getenv(X509_get_default_cert_dir_env()) != nullptr) {
    return;
  }
  const std::filesystem::path file = root_certificates_elsewhere("/");
  if (!file.empty()) setenv(X509_get_default_cert_file_env(), file.c_str(), /*overwrite=*/0);
}

}  // namespace reprise::cli
