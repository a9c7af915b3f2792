#include "reprise/hub/download/file_hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <new>

#include "reprise/base/error.h"

namespace reprise::hub {

void FileHash::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

FileHash::FileHash(HashKind kind, uint64_t size) : context_(EVP_MD_CTX_new()) {
  if (!context_) throw std::bad_alloc();
  const bool is_git = kind == HashKind::git_sha1;
  if (EVP_DigestInit_ex2(context_.get(), is_git ? EVP_sha1() : EVP_sha256(), nullptr) != 1) {
    throw Error(fmt::format("OpenSSL has no {}: downloads cannot be checked",
                            is_git ? "SHA-1" : "SHA-256"));
  }
  if (is_git) add(fmt::format("blob {}", size) + '\0');
}

void FileHash::add(std::string_view bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string FileHash::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_.get(), digest.data(), &length);
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace reprise::hub
