#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "reprise/server/http/tls_context.h"
#include "reprise/server/http/tls_files.h"

namespace reprise::server {
namespace {

/// A folder with a certificate and its key, which tests replace.
class TlsRefresh : public ::testing::Test {
 protected:
  TlsRefresh()
      : folder_(std::filesystem::temp_directory_path() /
                ("reprise_tls_refresh_" + std::to_string(getpid()))) {
    std::filesystem::create_directory(folder_);
    write_pair(1);
  }
  ~TlsRefresh() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] TlsOptions options() const {
    return {.certificate_file = folder_ / "cert", .key_file = folder_ / "key", .refreshes = true};
  }
  void write_pair(long serial_number) const {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial_number);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
    write("cert", [&](std::FILE* file) { PEM_write_X509(file, certificate.get()); });
    write("key", [&](std::FILE* file) {
      PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  void write_text(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  static long serial_number(const std::optional<boost::asio::ssl::context>& context) {
    auto* const native = const_cast<boost::asio::ssl::context&>(*context).native_handle();
    return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_CTX_get0_certificate(native)));
  }

 private:
  template <typename Write>
  void write(const char* name, const Write& contents) const {
    std::FILE* const file = std::fopen((folder_ / name).c_str(), "w");
    contents(file);
    std::fclose(file);
  }

  std::filesystem::path folder_;
};

TEST_F(TlsRefresh, takes_new_files_and_keeps_the_old_ones_when_these_cannot_be_used) {
  std::optional<boost::asio::ssl::context> context;
  context.emplace(make_tls_context(options()));
  EXPECT_EQ(serial_number(context), 1);
  write_pair(2);
  EXPECT_EQ(refresh_tls_context(context, options()), "");
  EXPECT_EQ(serial_number(context), 2);
  write_text("key", "not a key");
  EXPECT_NE(refresh_tls_context(context, options()).find("--ssl-keyfile"), std::string::npos);
  ASSERT_TRUE(context);
  EXPECT_EQ(serial_number(context), 2);
}

TEST_F(TlsRefresh, a_change_counts_once_when_the_files_are_at_rest) {
  TlsFiles files(options());
  EXPECT_FALSE(files.have_changed());
  write_text("cert", "a certificate of another length");
  EXPECT_FALSE(files.have_changed()) << "the key may follow";
  write_text("key", "its key");
  EXPECT_FALSE(files.have_changed());
  EXPECT_TRUE(files.have_changed());
  EXPECT_FALSE(files.have_changed());
}

TEST_F(TlsRefresh, a_file_that_is_gone_is_a_change) {
  TlsFiles files(options());
  std::filesystem::remove(options().key_file);
  EXPECT_FALSE(files.have_changed());
  EXPECT_TRUE(files.have_changed());
}

}  // namespace
}  // namespace reprise::server
