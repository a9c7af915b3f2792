#include "reprise/weights/gguf/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers of a file are copied");

// Published files have about 50 keys; the largest sharded models have some thousand tensors.
constexpr uint64_t kMaxKeys = uint64_t{1} << 16;
constexpr uint64_t kMaxTensors = uint64_t{1} << 18;
// The largest vocabularies have 262 144 tokens and 514 906 merges.
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 22;
constexpr uint64_t kMaxStringBytes = uint64_t{16} << 20;  // chat templates have up to 100 KB
constexpr uint64_t kMaxNameBytes = 1024;                  // ggml itself allows 64 for a tensor
constexpr uint64_t kMaxHeaderBytes = uint64_t{256} << 20;
constexpr uint32_t kMaxAxes = 4;  // GGML_MAX_DIMS
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMaxAlignment = int64_t{1} << 30;

// Reads a file from its start, through a window of the file in memory.
class FileCursor {
 public:
  FileCursor(const ReadAt& read_at, uint64_t file_bytes, std::string_view path)
      : read_at_(read_at), file_bytes_(file_bytes), path_(path) {}

  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] uint64_t remaining() const { return file_bytes_ - position_; }

  void read(std::span<std::byte> dst, std::string_view field) {
    if (dst.size() > remaining()) {
      fail("E_TRUNCATED",
           field,
           fmt::format("{} bytes are expected at byte {}, the file has {} there; was the download "
                       "cut?",
                       dst.size(),
                       position_,
                       remaining()));
    }
    if (position_ + dst.size() > kMaxHeaderBytes) {
      fail("E_TOO_LARGE", field, fmt::format("the header has more than {} bytes", kMaxHeaderBytes));
    }
    while (!dst.empty()) {
      if (position_ < window_begin_ || position_ >= window_begin_ + window_.size()) fill();
      const size_t at = position_ - window_begin_;
      const size_t count = std::min(dst.size(), window_.size() - at);
      std::memcpy(dst.data(), window_.data() + at, count);
      dst = dst.subspan(count);
      position_ += count;
    }
  }

  template <typename T>
  T number(std::string_view field) {
    T value;
    read(std::as_writable_bytes(std::span(&value, 1)), field);
    return value;
  }

  std::string string(uint64_t max_bytes, std::string_view field) {
    const auto length = number<uint64_t>(field);
    if (length > remaining()) {
      fail("E_TRUNCATED",
           field,
           fmt::format("a string says it has {} bytes, the file has {} left", length, remaining()));
    }
    if (length > max_bytes) {
      fail("E_TOO_LARGE",
           field,
           fmt::format("a string has {} bytes, at most {} are accepted", length, max_bytes));
    }
    std::string text(length, '\0');
    read(std::as_writable_bytes(std::span(text)), field);
    return text;
  }

  [[noreturn]] void fail(std::string_view code,
                         std::string_view field,
                         std::string_view message) const {
    throw FileError(code, path_, visible(field), message);
  }

 private:
  void fill() {
    constexpr uint64_t kWindowBytes = uint64_t{64} << 10;
    window_.resize(std::min(kWindowBytes, remaining()));
    window_begin_ = position_;
    read_at_(position_, window_);
  }

  const ReadAt& read_at_;
  uint64_t file_bytes_;
  std::string_view path_;
  uint64_t position_ = 0;
  uint64_t window_begin_ = 0;
  std::vector<std::byte> window_;
};

class HeaderReader {
 public:
  HeaderReader(const ReadAt& read_at, uint64_t file_bytes, std::string_view path)
      : cursor_(read_at, file_bytes, path), file_bytes_(file_bytes) {
    header_.metadata = Metadata(std::string(path));
  }

  Header read() && {
    read_version();
    const auto num_tensors = cursor_.number<uint64_t>("tensor_count");
    const auto num_keys = cursor_.number<uint64_t>("metadata_kv_count");
    check_count("tensor_count", num_tensors, kMaxTensors, kLeastTensorBytes);
    check_count("metadata_kv_count", num_keys, kMaxKeys, kLeastKeyBytes);
    for (uint64_t i = 0; i < num_keys; ++i) read_key();
    for (uint64_t i = 0; i < num_tensors; ++i) read_tensor();
    place_tensors();
    return std::move(header_);
  }

 private:
  // The shortest possible key: its length, its type and one byte. The shortest possible tensor:
  // length of the name, number of axes, type and offset.
  static constexpr uint64_t kLeastKeyBytes = 8 + 4 + 1;
  static constexpr uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;

  void read_version() {
    char magic[4];
    cursor_.read(std::as_writable_bytes(std::span(magic)), "magic");
    if (std::string_view(magic, 4) != "GGUF") {
      cursor_.fail("E_MAGIC", "", "is no GGUF file: it does not begin with 'GGUF'");
    }
    const auto version = cursor_.number<uint32_t>("version");
    if (version == 2 || version == 3) return;
    if (version == 0x02000000U || version == 0x03000000U) {
      cursor_.fail("E_VERSION", "version", "big-endian files are not supported");
    }
    cursor_.fail(
        "E_VERSION",
        "version",
        fmt::format("{} is not supported; supported: 2 and 3. Convert the model again with "
                    "a current llama.cpp",
                    version));
  }

  void check_count(std::string_view field, uint64_t count, uint64_t most, uint64_t least_bytes) {
    if (count <= most && count <= cursor_.remaining() / least_bytes) return;
    cursor_.fail(count > most ? "E_TOO_LARGE" : "E_TRUNCATED",
                 field,
                 fmt::format("says {}; at most {} are accepted, and the file has {} bytes left",
                             count,
                             most,
                             cursor_.remaining()));
  }

  void read_key() {
    std::string key = cursor_.string(kMaxNameBytes, "metadata key");
    const ValueType type = read_type(key);
    Value value = read_value(key, type);
    std::string copy = key;
    if (!header_.metadata.add(std::move(copy), std::move(value))) {
      cursor_.fail("E_DUPLICATE", key, "the file has this key twice");
    }
  }

  ValueType read_type(std::string_view key) {
    const auto number = cursor_.number<uint32_t>(key);
    if (number > static_cast<uint32_t>(ValueType::f64)) {
      cursor_.fail("E_TYPE", key, fmt::format("has a value of type {}, expected 0 to 12", number));
    }
    return static_cast<ValueType>(number);
  }

  Value read_value(std::string_view key, ValueType type) {
    if (type == ValueType::string) return cursor_.string(kMaxStringBytes, key);
    if (type == ValueType::array) return read_array(key);
    std::byte bytes[8];
    cursor_.read(std::span(bytes).first(value_bytes(type)), key);
    if (type == ValueType::boolean) check_boolean(key, bytes[0]);
    return read_number(type, bytes);
  }

  void check_boolean(std::string_view key, std::byte value) {
    if (value > std::byte{1}) {
      cursor_.fail(
          "E_VALUE", key, fmt::format("a boolean must be 0 or 1, got {}", static_cast<int>(value)));
    }
  }

  ArrayValue read_array(std::string_view key) {
    ArrayValue array;
    array.type = read_type(key);
    if (array.type == ValueType::array) {
      cursor_.fail("E_TYPE", key, "is an array of arrays, which is not supported");
    }
    const auto count = cursor_.number<uint64_t>(key);
    const size_t element_bytes = value_bytes(array.type);
    const bool holds_strings = array.type == ValueType::string;
    check_count(key, count, kMaxArrayElements, holds_strings ? 8 : element_bytes);
    if (holds_strings) {
      for (uint64_t i = 0; i < count; ++i) {
        array.strings.push_back(cursor_.string(kMaxStringBytes, key));
      }
      return array;
    }
    array.numbers.resize(count * element_bytes);
    cursor_.read(array.numbers, key);
    if (array.type == ValueType::boolean) {
      for (const std::byte value : array.numbers) check_boolean(key, value);
    }
    return array;
  }

  void read_tensor() {
    TensorInfo tensor;
    tensor.name = cursor_.string(kMaxNameBytes, "tensor name");
    if (!names_.insert(tensor.name).second) {
      cursor_.fail("E_DUPLICATE", tensor.name, "the file has this tensor twice");
    }
    const auto num_axes = cursor_.number<uint32_t>(tensor.name);
    if (num_axes < 1 || num_axes > kMaxAxes) {
      cursor_.fail(
          "E_SHAPE", tensor.name, fmt::format("has {} axes, expected 1 to {}", num_axes, kMaxAxes));
    }
    for (uint32_t axis = 0; axis < num_axes; ++axis) {
      const auto extent = cursor_.number<uint64_t>(tensor.name);
      if (extent < 1 || extent > uint64_t{std::numeric_limits<int64_t>::max()}) {
        cursor_.fail("E_SHAPE", tensor.name, fmt::format("has an extent of {}", extent));
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(extent));
    }
    const auto type = cursor_.number<uint32_t>(tensor.name);
    const std::optional<BlockFormat> format = block_format_of(type);
    if (!format) {
      cursor_.fail(
          "E_DTYPE",
          tensor.name,
          fmt::format("tensor type {} cannot be read; supported: {}", type, block_format_list()));
    }
    tensor.format = *format;
    tensor.begin = cursor_.number<uint64_t>(tensor.name);  // still from the start of the data
    tensor.bytes = checked_bytes(tensor);
    header_.tensors.push_back(std::move(tensor));
  }

  uint64_t checked_bytes(const TensorInfo& tensor) {
    const BlockSize block = block_size(tensor.format);
    if (tensor.row_elements() % block.num_elements != 0) {
      cursor_.fail("E_SHAPE",
                   tensor.name,
                   fmt::format("{} needs rows of a multiple of {} elements, got {}",
                               block_format_name(tensor.format),
                               block.num_elements,
                               tensor.row_elements()));
    }
    uint64_t bytes = tensor.row_bytes();
    bool overflows = static_cast<uint64_t>(tensor.row_elements()) / block.num_elements >
                     std::numeric_limits<uint64_t>::max() / block.bytes;
    for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) {
      overflows |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[axis]), &bytes);
    }
    if (overflows || bytes > file_bytes_) {
      cursor_.fail("E_SHAPE",
                   tensor.name,
                   fmt::format("{} {} is larger than the whole file, which has {} bytes; was the "
                               "download cut?",
                               block_format_name(tensor.format),
                               shape_text(tensor.shape),
                               file_bytes_));
    }
    return bytes;
  }

  // Turns offsets in the data into offsets in the file, and checks that the data is long enough.
  void place_tensors() {
    const auto alignment =
        static_cast<uint64_t>(header_.metadata.integer("general.alignment", 8, kMaxAlignment)
                                  .value_or(kDefaultAlignment));
    if (!std::has_single_bit(alignment)) {
      header_.metadata.fail("general.alignment",
                            fmt::format("must be a power of two, got {}", alignment));
    }
    const uint64_t data_begin = (cursor_.position() + alignment - 1) / alignment * alignment;
    if (header_.tensors.empty()) return;
    if (data_begin > file_bytes_) {
      cursor_.fail("E_TRUNCATED", "", "the file ends with its header; was the download cut?");
    }
    const uint64_t data_bytes = file_bytes_ - data_begin;
    for (TensorInfo& tensor : header_.tensors) {
      if (tensor.begin % alignment != 0) {
        cursor_.fail(
            "E_OFFSET",
            tensor.name,
            fmt::format("begins at {}, which is not a multiple of {}", tensor.begin, alignment));
      }
      if (tensor.begin > data_bytes || tensor.bytes > data_bytes - tensor.begin) {
        cursor_.fail("E_TRUNCATED",
                     tensor.name,
                     fmt::format("has {} bytes from byte {} of the data, the data has {}; was the "
                                 "download cut?",
                                 tensor.bytes,
                                 tensor.begin,
                                 data_bytes));
      }
      tensor.begin += data_begin;
    }
    check_overlap();
  }

  void check_overlap() {
    std::vector<const TensorInfo*> sorted;
    for (const TensorInfo& tensor : header_.tensors) sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return a->begin < b->begin;
    });
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i]->begin < sorted[i - 1]->begin + sorted[i - 1]->bytes) {
        cursor_.fail("E_OVERLAP",
                     sorted[i]->name,
                     fmt::format("shares bytes with tensor {}", visible(sorted[i - 1]->name)));
      }
    }
  }

  FileCursor cursor_;
  uint64_t file_bytes_;
  std::set<std::string, std::less<>> names_;
  Header header_;
};

}  // namespace

Header read_header(const ReadAt& read_at, uint64_t file_bytes, std::string_view path) {
  return HeaderReader(read_at, file_bytes, path).read();
}

}  // namespace reprise::weights::gguf
