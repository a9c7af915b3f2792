#include "reprise/weights/files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/json_cursor.h"

namespace reprise::weights {
namespace {

// The largest published sharded models have about 10^5 tensors in all files together.
constexpr size_t kMaxTensors = size_t{1} << 18;
// Frameworks stop at 8 to 64 axes; no weight has more than 5.
constexpr size_t kMaxAxes = 8;

std::optional<DType> dtype_of(std::string_view name) {
  constexpr std::pair<std::string_view, DType> kNames[] = {{"F64", DType::f32},  // see TensorEntry
                                                           {"F32", DType::f32},
                                                           {"BF16", DType::bf16},
                                                           {"F16", DType::f16},
                                                           {"F8_E4M3", DType::f8e4m3},
                                                           {"F8_E5M2", DType::f8e5m2},
                                                           {"I8", DType::i8},
                                                           {"U8", DType::u8},
                                                           {"BOOL", DType::u8},
                                                           {"I32", DType::i32},
                                                           {"I64", DType::i64}};
  for (const auto& [candidate, dtype] : kNames) {
    if (candidate == name) return dtype;
  }
  return std::nullopt;
}

// Reads the header as a stream of values, without a JSON tree. So memory grows only with completely
// described tensors, and the first value that does not fit the format stops the read.
class HeaderReader {
 public:
  HeaderReader(std::string_view json, std::string_view path)
      : path_(path), cursor_(json, path, {kMalformed, kMalformed, kMalformed}) {}

  std::vector<TensorEntry> read() && {
    std::unordered_set<std::string> names;
    cursor_.for_each_member([&](std::string_view name) {
      if (!names.emplace(name).second) fail("E_DUPLICATE", name, "the header has this name twice");
      name == "__metadata__" ? read_metadata() : read_tensor(name);
    });
    cursor_.expect_end();
    return std::move(tensors_);
  }

 private:
  static constexpr std::string_view kMalformed = "E_HEADER_JSON";

  [[noreturn]] void fail(std::string_view code,
                         std::string_view name,
                         std::string_view message) const {
    throw FileError(code, path_, visible(name), message);
  }

  // The metadata is only checked: nothing in the engine uses it.
  void read_metadata() {
    std::string storage;
    std::unordered_set<std::string> names;
    cursor_.for_each_member([&](std::string_view name) {
      if (!names.emplace(name).second) fail("E_DUPLICATE", "__metadata__", "has a name twice");
      static_cast<void>(cursor_.read_string(storage));
    });
  }

  void read_tensor(std::string_view name) {
    if (tensors_.size() == kMaxTensors) {
      fail("E_HEADER_SIZE", name, fmt::format("more than {} tensors", kMaxTensors));
    }
    TensorEntry tensor{.name = std::string(name), .spec = {}, .begin = 0, .end = 0};
    bool has_dtype = false;
    bool has_shape = false;
    bool has_offsets = false;
    cursor_.for_each_member([&](std::string_view member) {
      const auto once = [&](bool& seen) {
        if (seen) fail("E_DUPLICATE", name, fmt::format("has '{}' twice", member));
        seen = true;
      };
      if (member == "dtype") {
        once(has_dtype);
        read_dtype(tensor);
      } else if (member == "shape") {
        once(has_shape);
        read_shape(tensor);
      } else if (member == "data_offsets") {
        once(has_offsets);
        read_offsets(tensor);
      } else {
        fail(kMalformed, name, fmt::format("unknown member '{}'", visible(member)));
      }
    });
    if (!has_dtype || !has_shape || !has_offsets) {
      fail(kMalformed, name, "dtype, shape and data_offsets are all required");
    }
    tensors_.push_back(std::move(tensor));
  }

  void read_dtype(TensorEntry& tensor) {
    std::string storage;
    const std::string_view name = cursor_.read_string(storage);
    const std::optional<DType> dtype = dtype_of(name);
    if (!dtype) {
      fail("E_DTYPE",
           tensor.name,
           fmt::format("element type '{}' cannot be read; expected one of F64, F32, BF16, "
                       "F16, F8_E4M3, F8_E5M2, I8, U8, BOOL, I32, I64",
                       visible(name)));
    }
    tensor.spec.dtype = *dtype;
    tensor.is_f64 = name == "F64";
  }

  void read_shape(TensorEntry& tensor) {
    if (cursor_.peek() != '[') fail("E_SHAPE", tensor.name, "shape must be a list");
    cursor_.for_each_element([&] {
      if (tensor.spec.shape.size() == kMaxAxes) {
        fail("E_SHAPE", tensor.name, fmt::format("more than {} axes", kMaxAxes));
      }
      const uint64_t extent = cursor_.read_unsigned(std::numeric_limits<int64_t>::max(), "E_SHAPE");
      tensor.spec.shape.push_back(static_cast<int64_t>(extent));
    });
  }

  void read_offsets(TensorEntry& tensor) {
    int count = 0;
    cursor_.for_each_element([&] {
      const uint64_t offset =
          cursor_.read_unsigned(std::numeric_limits<uint64_t>::max(), "E_OFFSET");
      (count == 0 ? tensor.begin : tensor.end) = offset;
      ++count;
    });
    if (count != 2) fail("E_OFFSET", tensor.name, "data_offsets must be [begin, end]");
  }

  std::string_view path_;
  JsonCursor cursor_;
  std::vector<TensorEntry> tensors_;
};

void check_extent(const TensorEntry& tensor, uint64_t data_bytes, std::string_view path) {
  const auto fail = [&](std::string_view code, std::string_view message) {
    throw FileError(code, path, visible(tensor.name), message);
  };
  if (tensor.begin > tensor.end) {
    fail("E_OFFSET", fmt::format("begins at {} and ends before, at {}", tensor.begin, tensor.end));
  }
  const std::optional<uint64_t> bytes = checked_size_bytes(tensor.spec);
  const std::string shape = shape_text(tensor.spec.shape);
  const bool is_too_large =
      !bytes || (tensor.is_f64 && *bytes > std::numeric_limits<uint64_t>::max() / 2);
  if (is_too_large) fail("E_SHAPE", fmt::format("shape {} does not fit in 64 bits", shape));
  const uint64_t expected = tensor.is_f64 ? 2 * *bytes : *bytes;
  const uint64_t stored = tensor.end - tensor.begin;
  if (expected == stored) return;
  if (tensor.end > data_bytes) {
    fail("E_OFFSET", fmt::format("ends at {}, the data has {} bytes", tensor.end, data_bytes));
  }
  fail("E_SHAPE",
       fmt::format("{} {} needs {} bytes, data_offsets give {}",
                   tensor.is_f64 ? "float64" : dtype_name(tensor.spec.dtype),
                   shape,
                   expected,
                   stored));
}

// \pre `tensors` are in file order. If a tensor ends beyond the data, the error is E_TRUNCATED if
// the header is consistent (then the file was cut), and E_OFFSET if it is not.
void check_cover(const std::vector<TensorEntry>& tensors,
                 uint64_t data_bytes,
                 std::string_view path) {
  uint64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != covered) {
      const std::string_view code = tensor.begin < covered      ? "E_OVERLAP"
                                    : tensor.begin > data_bytes ? "E_OFFSET"
                                                                : "E_GAP";
      throw FileError(
          code,
          path,
          visible(tensor.name),
          fmt::format("begins at {}, the tensor before ends at {}", tensor.begin, covered));
    }
    covered = tensor.end;
  }
  if (covered > data_bytes) {
    throw FileError("E_TRUNCATED",
                    path,
                    visible(tensors.back().name),
                    fmt::format("the header describes {} bytes of data, the file has {}; was the "
                                "download cut?",
                                covered,
                                data_bytes));
  }
  if (covered < data_bytes) {
    throw FileError("E_TRAILING",
                    path,
                    "",
                    fmt::format("{} bytes after the last tensor", data_bytes - covered));
  }
}

}  // namespace

std::vector<TensorEntry> parse_safetensors_header(std::string_view json,
                                                  uint64_t data_bytes,
                                                  std::string_view path) {
  if (!json.starts_with('{')) {
    throw FileError("E_HEADER_JSON", path, "", "the header does not begin with '{'");
  }
  std::vector<TensorEntry> tensors = HeaderReader(json, path).read();
  for (const TensorEntry& tensor : tensors) check_extent(tensor, data_bytes, path);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(tensors, data_bytes, path);
  return tensors;
}

}  // namespace reprise::weights
