#include "reprise/weights/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"

namespace reprise::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation

std::string read_header(const InputFile& file) {
  if (file.size_bytes() < kLengthBytes) {
    throw FileError("E_TRUNCATED",
                    file.path(),
                    "",
                    fmt::format("{} bytes, a safetensors file begins with an 8-byte header length",
                                file.size_bytes()));
  }
  std::byte length[kLengthBytes];
  file.read_at(0, length, "");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, length, kLengthBytes);
  if (file.size_bytes() == kLengthBytes) {
    throw FileError("E_TRUNCATED", file.path(), "", "the file ends after the header length");
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size_bytes() - kLengthBytes) {
    throw FileError("E_HEADER_SIZE",
                    file.path(),
                    "",
                    fmt::format("header of {} bytes; the file has {} and at most {} are accepted",
                                header_bytes,
                                file.size_bytes(),
                                kMaxHeaderBytes));
  }
  std::string header(header_bytes, '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(header)), "");
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(InputFile file) : file_(std::move(file)) {
  const std::string json = read_header(file_);
  data_begin_ = kLengthBytes + json.size();
  tensors_ = parse_safetensors_header(json, file_.size_bytes() - data_begin_, file_.path());
  by_name_.reserve(tensors_.size());
  for (const TensorEntry& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void SafetensorsFile::read(const TensorEntry& tensor,
                           uint64_t offset,
                           std::span<std::byte> dst) const {
  REPRISE_ASSERT(offset <= tensor.size_bytes() && dst.size() <= tensor.size_bytes() - offset,
                 "a read of {} bytes at offset {} leaves the tensor {} of {} bytes",
                 dst.size(),
                 offset,
                 tensor.name,
                 tensor.size_bytes());
  if (tensor.is_f64) return read_f64(tensor, offset, dst);
  file_.read_at(data_begin_ + tensor.begin + offset, dst, visible(tensor.name));
}

void SafetensorsFile::read_f64(const TensorEntry& tensor,
                               uint64_t offset,
                               std::span<std::byte> dst) const {
  REPRISE_ASSERT(offset % sizeof(float) == 0 && dst.size() % sizeof(float) == 0,
                 "a read of {} bytes at offset {} splits a number of the tensor {}",
                 dst.size(),
                 offset,
                 tensor.name);
  const uint64_t begin = data_begin_ + tensor.begin + offset / sizeof(float) * sizeof(double);
  std::array<double, 2048> staging;
  const size_t num_elements = dst.size() / sizeof(float);
  for (size_t done = 0; done < num_elements; done += staging.size()) {
    const size_t count = std::min(staging.size(), num_elements - done);
    const auto chunk = std::span(staging).first(count);
    file_.read_at(
        begin + done * sizeof(double), std::as_writable_bytes(chunk), visible(tensor.name));
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(chunk[i]);  // what is too large becomes an infinity
      std::memcpy(dst.data() + (done + i) * sizeof(float), &value, sizeof(float));
    }
  }
}

}  // namespace reprise::weights
