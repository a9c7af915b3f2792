#include "reprise/http_client/root_certificates.h"

#include <openssl/x509.h>

#include <string_view>

namespace reprise::http_client {
namespace {

// The places on Fedora and Red Hat, on openSUSE, and on Debian and Alpine.
constexpr std::string_view kPlaces[] = {"etc/pki/tls/certs/ca-bundle.crt",
                                        "etc/ssl/ca-bundle.pem",
                                        "etc/ssl/certs/ca-certificates.crt",
                                        "etc/ssl/cert.pem"};

bool is_there(const std::filesystem::path& path) {
  std::error_code error;  // a file whose status cannot be read cannot be read either
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

}  // namespace reprise::http_client
