#include "reprise/cli/result_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "reprise/base/error.h"

namespace reprise::cli {

void require_writable(std::string_view option, const std::filesystem::path& path) {
  if (path.empty()) return;
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(path, ignored);
  errno = 0;
  if (!std::ofstream(path, std::ios::binary | std::ios::app)) {
    throw InvalidArgument(
        fmt::format("{} {}: cannot be written: {}", option, path.string(), std::strerror(errno)));
  }
  if (is_new) std::filesystem::remove(path, ignored);
}

}  // namespace reprise::cli
