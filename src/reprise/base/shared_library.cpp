#include "reprise/base/shared_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>

namespace reprise {
namespace {

/// Whether `count` elements of `size` bytes at `offset` lie in a file of `num_bytes`.
bool lies_within(uint64_t offset, uint64_t size, uint64_t count, uint64_t num_bytes) {
  return offset <= num_bytes && (size == 0 || count <= (num_bytes - offset) / size);
}

bool read_at(std::ifstream& file, uint64_t offset, void* bytes, size_t num_bytes) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(
      file.read(static_cast<char*>(bytes), static_cast<std::streamsize>(num_bytes)));
}

std::string cut_short(const char* what, uint64_t num_bytes) {
  return fmt::format(
      "is cut short: its {} lie behind its {} bytes; copy or install it again", what, num_bytes);
}

}  // namespace

std::string why_not_loadable(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "is not a regular file";
  const uint64_t num_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return "cannot be read";
  Elf64_Ehdr header{};
  if (!read_at(file, 0, &header, sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) {
    return "is not a shared library";
  }
  if (!lies_within(header.e_phoff, sizeof(Elf64_Phdr), header.e_phnum, num_bytes)) {
    return cut_short("segments' headers", num_bytes);
  }
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment, sizeof segment)) {
      return "cannot be read";
    }
    if (segment.p_type == PT_LOAD && !lies_within(segment.p_offset, 1, segment.p_filesz, num_bytes))
      return cut_short("segments", num_bytes);
  }
  // Linkers write the section table last. If it lies within the file, the file was not cut short.
  if (!lies_within(header.e_shoff, header.e_shentsize, header.e_shnum, num_bytes)) {
    return cut_short("sections' headers", num_bytes);
  }
  return {};
}

std::vector<std::filesystem::path> plugin_paths(std::string_view file_name) {
  std::vector<std::filesystem::path> paths;
  const auto add = [&](const std::filesystem::path& image) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::canonical(image, error).parent_path();
    if (error) return;
    for (const std::filesystem::path& path : {folder / file_name,
                                              folder / "lib" / file_name,
                                              folder.parent_path() / "lib" / file_name}) {
      if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
    }
  };
  add("/proc/self/exe");
  Dl_info image{};
  if (dladdr(reinterpret_cast<void*>(&plugin_paths), &image) != 0 && image.dli_fname != nullptr) {
    add(image.dli_fname);
  }
  return paths;
}

}  // namespace reprise
