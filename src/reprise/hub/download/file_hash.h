#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "reprise/hub/download/listing.h"

struct evp_md_ctx_st;

namespace reprise::hub {

/// The hash of a file's content while it arrives, of the kind with which the hub names the file.
class FileHash {
 public:
  /// `size`: bytes of the whole file, because Git's hash begins with it.
  FileHash(HashKind kind, uint64_t size);

  void add(std::string_view bytes);
  /// Lower-case hexadecimal digits. Call once, at the end.
  [[nodiscard]] std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace reprise::hub
