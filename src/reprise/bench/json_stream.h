#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::bench {

/// One value of a file that holds many, and where it begins.
struct JsonRecord {
  Json value;
  size_t line = 0;  // counted from 1
};

/// Reads files of any length in bounded memory: a JSON array element by element, or JSON lines.
/// Errors are FileErrors with the line: E_DATASET for what it is not, E_TRUNCATED for what is
/// missing.
class JsonStream {
 public:
  enum class Form { array, lines };
  /// \throws FileError when the file cannot be read
  JsonStream(const std::filesystem::path& path, Form form);

  /// The next value, or false at the end. Empty lines are passed over.
  /// \throws FileError when it is no JSON, too long (16 MiB) or too deep
  bool next(JsonRecord& record);

  // Of one value.
  static constexpr size_t kMaxRecordBytes = size_t{16} << 20;

 private:
  bool next_line(JsonRecord& record);
  bool next_element(JsonRecord& record);
  [[nodiscard]] int get();
  [[nodiscard]] int get_after_space();
  [[noreturn]] void refuse(std::string_view code, size_t line, std::string_view why) const;
  [[nodiscard]] Json parse(std::string_view text, size_t line) const;
  std::string read_element(int first, size_t line);

  std::filesystem::path path_;
  Form form_;
  std::ifstream file_;
  size_t line_ = 1;
  bool has_begun_ = false;
  bool has_ended_ = false;
};

}  // namespace reprise::bench
