#include "reprise/kv_cache/transfer/kv_mac.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <random>

#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

constexpr size_t kCodeBytes = 32;

}  // namespace

void KvMac::FreeContext::operator()(evp_mac_ctx_st* context) const noexcept {
  EVP_MAC_CTX_free(context);
}

KvMac::KvMac(std::string_view secret, std::string_view purpose) {
  EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  context_.reset(hmac == nullptr ? nullptr : EVP_MAC_CTX_new(hmac));
  EVP_MAC_free(hmac);  // the context holds its own reference to it
  std::array<char, 7> digest = {"SHA256"};
  const std::array<OSSL_PARAM, 2> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_end()};
  // For OpenSSL a null pointer means that no key was given, which is an error.
  const auto* const key =
      reinterpret_cast<const unsigned char*>(secret.empty() ? "" : secret.data());
  if (!context_ || EVP_MAC_init(context_.get(), key, secret.size(), parameters.data()) != 1) {
    throw Error("OpenSSL has no HMAC with SHA-256");
  }
  add(purpose);
}

void KvMac::update(const void* data, size_t size) {
  if (EVP_MAC_update(context_.get(), static_cast<const unsigned char*>(data), size) != 1) {
    throw Error("OpenSSL cannot compute an HMAC");
  }
}

KvMac& KvMac::add(std::string_view text) {
  add(uint64_t{text.size()});
  update(text.data(), text.size());
  return *this;
}

KvMac& KvMac::add(uint64_t number) {
  update(&number, sizeof(number));
  return *this;
}

void KvMac::add_piece(std::span<const std::byte> bytes) { update(bytes.data(), bytes.size()); }

std::string KvMac::finish() {
  std::array<unsigned char, kCodeBytes> code{};
  size_t size = 0;
  if (EVP_MAC_final(context_.get(), code.data(), &size, code.size()) != 1 || size != code.size()) {
    throw Error("OpenSSL cannot compute an HMAC");
  }
  return fmt::format("{:02x}", fmt::join(code, ""));
}

bool is_same_code(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_digits() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace reprise::kv_cache
