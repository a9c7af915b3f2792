#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::bench {

/// One of the values in a file, and the line on which it begins.
struct JsonRecord {
  Json value;
  size_t line = 0;  // counted from 1
};

/// Reads files of any length in bounded memory: a JSON array element by element, or JSON lines.
/// Errors are FileErrors that name the line: E_TRUNCATED when the file ends too early, else
/// E_DATASET.
class JsonStream {
 public:
  enum class Form { array, lines };
  /// \throws FileError when the file cannot be read
  JsonStream(const std::filesystem::path& path, Form form);

  /// Reads the next value; returns false at the end of the file. Skips empty lines.
  /// \throws FileError when the value is not JSON, longer than 16 MiB or nested too deep
  bool next(JsonRecord& record);

  // The largest size of one value.
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
