#include "reprise/server/http/tls_context.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include "reprise/base/error.h"

namespace reprise::server {
namespace {

namespace ssl = boost::asio::ssl;

void require(const boost::system::error_code& error, const char* option, const std::string& value) {
  if (!error) return;
  throw InvalidArgument(fmt::format("{} {}: {}", option, value, error.message()));
}

}  // namespace

ssl::context make_tls_context(const TlsOptions& options) {
  if (options.certificate_file.empty() || options.key_file.empty()) {
    throw InvalidArgument("TLS needs both --ssl-certfile and --ssl-keyfile");
  }
  ssl::context context(ssl::context::tls_server);
  context.set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                      ssl::context::no_tlsv1_1 | ssl::context::no_compression);
  boost::system::error_code error;
  (void)context.use_certificate_chain_file(options.certificate_file, error);
  require(error, "--ssl-certfile", options.certificate_file);
  (void)context.use_private_key_file(options.key_file, ssl::context::pem, error);
  require(error, "--ssl-keyfile", options.key_file);
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    throw InvalidArgument(fmt::format("--ssl-keyfile {}: is not the key of --ssl-certfile {}",
                                      options.key_file,
                                      options.certificate_file));
  }
  if (!options.ca_file.empty()) {
    (void)context.load_verify_file(options.ca_file, error);
    require(error, "--ssl-ca-certs", options.ca_file);
  }
  if (!options.ciphers.empty() &&
      SSL_CTX_set_cipher_list(context.native_handle(), options.ciphers.c_str()) != 1) {
    throw InvalidArgument(
        fmt::format("--ssl-ciphers {}: OpenSSL knows none of these", options.ciphers));
  }
  switch (options.client_certificates) {
    case ClientCertificates::none:
      context.set_verify_mode(ssl::verify_none);
      break;
    case ClientCertificates::optional:
      context.set_verify_mode(ssl::verify_peer);
      break;
    case ClientCertificates::required:
      context.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
      break;
  }
  return context;
}

std::string refresh_tls_context(std::optional<ssl::context>& context, const TlsOptions& options) {
  try {
    context.emplace(make_tls_context(options));
    return {};
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

}  // namespace reprise::server
