#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {

/// Root of the exceptions with which this project reports errors. (structured_output also throws
/// others, and catches them itself.) `what()` is for people: it says what happened and where, what
/// was expected and found, and what to do. Tests check types and fields instead.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller asked for something impossible: a bad flag, field, file or request. The process is
/// healthy; the command line maps this error to exit code 2, the server maps it to a 4xx status.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// InvalidArgument that points into a file: which file, which field or tensor, and a stable code
/// ("E_TRUNCATED", "E_SHAPE", ...) that tests and scripts may match on.
class FileError : public InvalidArgument {
 public:
  FileError(std::string_view code,
            std::string_view path,
            std::string_view field,
            std::string_view message)
      : InvalidArgument(compose(code, path, field, message)),
        code_(code),
        path_(path),
        field_(field) {}

  [[nodiscard]] const std::string& code() const noexcept { return code_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Tensor name, JSON pointer or option name; empty when the whole file is meant.
  [[nodiscard]] const std::string& field() const noexcept { return field_; }

 private:
  static std::string compose(std::string_view code,
                             std::string_view path,
                             std::string_view field,
                             std::string_view message) {
    std::string text;
    text.append(path).append(": ");
    if (!field.empty()) text.append(field).append(": ");
    text.append(message).append(" [").append(code).append("]");
    return text;
  }

  std::string code_;
  std::string path_;
  std::string field_;
};

/// An allocation failed, and lack of memory is certainly the reason.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace reprise
