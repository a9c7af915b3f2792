#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_mac_ctx_st;  // OpenSSL's context

namespace reprise::kv_cache {

/// HMAC-SHA-256 of several parts under the secret that the engines of a pair share. Each text is
/// preceded by its length, so different parts never give the same bytes. One use; move-only.
class KvMac {
 public:
  /// `purpose` keeps the codes of different messages apart. An empty secret is a key that everyone
  /// knows: the code then proves nothing about its sender. \throws OutOfMemory
  KvMac(std::string_view secret, std::string_view purpose);

  KvMac& add(std::string_view text);
  KvMac& add(uint64_t number);
  /// The last part: it has no length in front and may come in pieces.
  void add_piece(std::span<const std::byte> bytes);
  /// 64 hexadecimal digits.
  [[nodiscard]] std::string finish();

 private:
  struct FreeContext {
    void operator()(evp_mac_ctx_st* context) const noexcept;
  };
  void update(const void* data, size_t size);

  std::unique_ptr<evp_mac_ctx_st, FreeContext> context_;
};

/// Compares in constant time, wherever the two differ.
[[nodiscard]] bool is_same_code(std::string_view a, std::string_view b) noexcept;

/// 128 random bits from the system's source, which cannot be guessed, as hexadecimal digits.
[[nodiscard]] std::string random_digits();

}  // namespace reprise::kv_cache
