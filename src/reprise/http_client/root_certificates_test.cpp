#include "reprise/http_client/root_certificates.h"

#include <gtest/gtest.h>
#include <openssl/x509.h>

#include <fstream>

#include "tests/support/weights/weights_fixture.h"

namespace reprise::http_client {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "-----BEGIN CERTIFICATE-----\n";
}

TEST(RootCertificates, of_another_system_are_found_where_that_keeps_them) {
  const weights::TempDirectory fedora;
  EXPECT_EQ(root_certificates_elsewhere(fedora.path()), "");
  const fs::path bundle = fedora.path() / "etc/pki/tls/certs/ca-bundle.crt";
  write(bundle);
  EXPECT_EQ(root_certificates_elsewhere(fedora.path()), bundle);
}

TEST(RootCertificates, are_left_to_openssl_where_it_finds_them) {
  const weights::TempDirectory system;
  write(system.path() / "etc/ssl/ca-bundle.pem");
  // An empty folder has no certificates, like a system without the package of certificates.
  const fs::path folder = system.path() / fs::path(X509_get_default_cert_dir()).relative_path();
  fs::create_directories(folder);
  EXPECT_EQ(root_certificates_elsewhere(system.path()), system.path() / "etc/ssl/ca-bundle.pem");
  write(folder / "0a775a30.0");
  EXPECT_EQ(root_certificates_elsewhere(system.path()), "");
}

}  // namespace
}  // namespace reprise::http_client
