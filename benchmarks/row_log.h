#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::benchmark {

/// The results of a benchmark as rows of JSON, one per line: on standard output, and in a file if
/// one was named. add() returns only when the row is in the file, so a benchmark that is cut off
/// keeps its rows.
class RowLog {
 public:
  /// `what` is a member of every row. An empty path: no file. \throws Error
  RowLog(std::string what, const std::filesystem::path& path)
      : what_(std::move(what)), path_(path) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), "w"));
    if (file_ == nullptr) throw Error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }

  void add(std::string_view row, Json members) {
    members["what"] = what_;
    members["row"] = row;
    members["index"] = num_rows_++;
    const std::string line = members.dump() + "\n";
    if (file_ != nullptr) {
      // Standard I/O writes a short line with one system call.
      std::fwrite(line.data(), 1, line.size(), file_.get());
      if (std::fflush(file_.get()) != 0) throw Error("the file of results cannot be written");
    }
    std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
  }

  /// The folder of the file, for what is kept beside it; empty without a file.
  [[nodiscard]] std::filesystem::path folder() const { return path_.parent_path(); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string what_;
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  int num_rows_ = 0;
};

}  // namespace reprise::benchmark
