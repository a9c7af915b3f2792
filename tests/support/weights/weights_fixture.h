#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// A folder for one test, removed with its content at the end.
class TempDirectory {
 public:
  TempDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "reprise-weights-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers know the path
  std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::filesystem::path path_;
};

inline std::string length_prefix(uint64_t length) {
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix;
}

/// The bytes of a safetensors file with this header text, valid or not.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return length_prefix(header.size()).append(header).append(data);
}

/// The stable code of the FileError that `action` throws, or a description of what happened
/// instead.
template <typename Action>
std::string code_of(Action action) {
  try {
    action();
  } catch (const FileError& error) {
    EXPECT_FALSE(std::string_view(error.what()).empty());
    return error.code();
  } catch (const std::exception& error) {
    return std::string("other exception: ") + error.what();
  }
  return "accepted";
}

/// what() of the FileError that `action` throws.
template <typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const FileError& error) {
    return error.what();
  }
  return "accepted";
}

/// All values of one tensor as float32.
inline std::vector<float> read_f32(const WeightSource& source, std::string_view name) {
  const TensorSpec& spec = *source.find(name);
  std::vector<float> values(size_bytes(spec) / dtype_bytes(spec.dtype));
  source.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace reprise::weights
