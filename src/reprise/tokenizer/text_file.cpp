#include "reprise/tokenizer/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "reprise/base/error.h"

namespace reprise::tokenizer {

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  const auto fail = [&](std::string_view reason) {
    throw FileError("E_TOKENIZER", path.string(), "", reason);
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) fail("no such file");
  const uintmax_t num_bytes = std::filesystem::file_size(path, error);
  if (error) fail(error.message());
  if (num_bytes > max_bytes) {
    fail(fmt::format("{} bytes, at most {} are accepted", num_bytes, max_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(num_bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(num_bytes))) fail("cannot be read");
  return text;
}

}  // namespace reprise::tokenizer
