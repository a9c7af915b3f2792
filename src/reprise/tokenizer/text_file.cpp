#include "reprise/tokenizer/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "reprise/base/error.h"
#include "reprise/base/text/json_cursor.h"

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

Json parse_json_file(std::string_view text, std::string_view path) {
  JsonCursor cursor(text, path, {"E_TOKENIZER"});  // refuses truncated and too deep documents
  static_cast<void>(cursor.skip_value());
  cursor.expect_end();
  try {
    return parse_json(
        text, path, {.max_bytes = kMaxJsonFileBytes, .max_depth = JsonCursor::kMaxDepth});
  } catch (const FileError&) {
    throw;
  } catch (const InvalidArgument& error) {
    throw FileError("E_TOKENIZER", path, "", error.what());
  }
}

}  // namespace reprise::tokenizer
