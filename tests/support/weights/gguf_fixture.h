#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::weights::gguf {

using Floats = std::vector<float>;

/// The elements of an F32 tensor.
inline std::string bytes_of(const Floats& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// first, first + 1, ...
inline Floats counting(size_t count, float first) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

/// Builds the bytes of a GGUF file, valid or not.
class GgufBytes {
 public:
  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }

  static std::string text(std::string_view value) {
    return raw(uint64_t{value.size()}).append(value);
  }

  GgufBytes& key(std::string_view name, uint32_t type, std::string_view value) {
    keys_.emplace_back(name, text(name) + raw(type) + std::string(value));
    return *this;
  }
  GgufBytes& without(std::string_view name) {
    std::erase_if(keys_, [&](const auto& key) { return key.first == name; });
    return *this;
  }
  GgufBytes& integer(std::string_view name, uint32_t value) { return key(name, 4, raw(value)); }
  GgufBytes& real(std::string_view name, float value) { return key(name, 6, raw(value)); }
  GgufBytes& boolean(std::string_view name, bool value) {
    return key(name, 7, raw(static_cast<uint8_t>(value)));
  }
  GgufBytes& string(std::string_view name, std::string_view value) {
    return key(name, 8, text(value));
  }
  GgufBytes& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes = raw(uint32_t{8}) + raw(uint64_t{values.size()});
    for (const std::string& value : values) bytes += text(value);
    return key(name, 9, bytes);
  }
  template <typename T>
  GgufBytes& numbers(std::string_view name, uint32_t type, const std::vector<T>& values) {
    std::string bytes = raw(type) + raw(uint64_t{values.size()});
    for (const T value : values) bytes += raw(value);
    return key(name, 9, bytes);
  }

  /// Adds a tensor. `shape`: outermost extent first. The data follows the previous tensor's data,
  /// aligned to 32.
  GgufBytes& tensor(std::string_view name,
                    uint32_t format,
                    const std::vector<uint64_t>& shape,
                    std::string_view data) {
    tensors_ += text(name) + raw(static_cast<uint32_t>(shape.size()));
    for (size_t axis = shape.size(); axis > 0; --axis) tensors_ += raw(shape[axis - 1]);
    tensors_ += raw(format) + raw(uint64_t{data_.size()});
    data_ += data;
    data_.append((32 - data_.size() % 32) % 32, '\0');
    ++num_tensors_;
    return *this;
  }

  [[nodiscard]] std::string header() const {
    std::string bytes = "GGUF" + raw(version) + raw(num_tensors_) + raw(uint64_t{keys_.size()});
    for (const auto& [name, key] : keys_) bytes += key;
    return bytes + tensors_;
  }
  [[nodiscard]] std::string bytes() const {
    std::string file = header();
    file.append((32 - file.size() % 32) % 32, '\0');
    return file + data_;
  }

  uint32_t version = 3;

 private:
  std::vector<std::pair<std::string, std::string>> keys_;  // names, and all of their bytes
  std::string tensors_;
  std::string data_;
  uint64_t num_tensors_ = 0;
};

}  // namespace reprise::weights::gguf
