#include "reprise/server/http/tls_files.h"

#include <sys/stat.h>

namespace reprise::server {

TlsFiles::States TlsFiles::look() const {
  const auto state_of = [](const std::string& path) -> State {
    struct stat status{};
    if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
    return {static_cast<int64_t>(status.st_dev),
            static_cast<int64_t>(status.st_ino),
            static_cast<int64_t>(status.st_size),
            static_cast<int64_t>(status.st_mtim.tv_sec),
            static_cast<int64_t>(status.st_mtim.tv_nsec)};
  };
  return {
      state_of(options_.certificate_file), state_of(options_.key_file), state_of(options_.ca_file)};
}

bool TlsFiles::have_changed() {
  const States now = look();
  const bool is_at_rest = now == last_;
  last_ = now;
  if (!is_at_rest || now == in_use_) return false;
  in_use_ = now;
  return true;
}

}  // namespace reprise::server
