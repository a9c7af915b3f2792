#include "reprise/weights/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::weights {
namespace {

// The largest published sharded models have about 10^5 tensors in all files together.
constexpr size_t kMaxTensors = size_t{1} << 18;
// Frameworks stop at 8 to 64 axes; no weight has more than 5.
constexpr size_t kMaxAxes = 8;

std::optional<DType> dtype_of(std::string_view name) {
  constexpr std::pair<std::string_view, DType> kNames[] = {{"F32", DType::f32},
                                                           {"BF16", DType::bf16},
                                                           {"F16", DType::f16},
                                                           {"I8", DType::i8},
                                                           {"U8", DType::u8},
                                                           {"I32", DType::i32},
                                                           {"I64", DType::i64}};
  for (const auto& [candidate, dtype] : kNames) {
    if (candidate == name) return dtype;
  }
  return std::nullopt;
}

// Reads the header as a stream of tokens. No JSON tree is built: memory grows with the tensors that
// were described completely, and whatever does not fit the format stops the read at once.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view path) : path_(path) {}

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool number_integer(number_integer_t) override { return bad_number("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return bad_number("a number with a fraction, an exponent or too many digits");
  }
  bool binary(binary_t&) override { return misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) return add_extent(value);
    if (state_ == State::offsets) {
      if (num_offsets_ == 2) fail("E_OFFSET", "data_offsets must be [begin, end]");
      (num_offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return true;
    }
    return bad_number("a number");
  }

  bool string(string_t& value) override {
    if (state_ == State::metadata) {
      if (!header_.metadata.emplace(std::move(key_), std::move(value)).second) {
        fail("E_DUPLICATE", "a name stands twice in __metadata__");
      }
      return true;
    }
    if (state_ == State::tensor && key_ == "dtype") {
      const std::optional<DType> dtype = dtype_of(value);
      if (!dtype) {
        fail("E_DTYPE",
             fmt::format("element type '{}' cannot be read; expected one of F32, BF16, F16, I8, "
                         "U8, I32, I64",
                         visible(value)));
      }
      tensor_.spec.dtype = *dtype;
      return true;
    }
    if (state_ == State::tensor && key_ == "shape") fail("E_SHAPE", "shape must be a list");
    if (state_ == State::shape) fail("E_SHAPE", "an extent must be an integer");
    return misplaced("a string");
  }

  bool start_object(size_t) override {
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top && key_ == "__metadata__") {
      state_ = State::metadata;
    } else if (state_ == State::top) {
      if (header_.tensors.size() == kMaxTensors) {
        fail("E_HEADER_SIZE", fmt::format("more than {} tensors", kMaxTensors));
      }
      tensor_ = TensorEntry{.name = key_, .spec = {}, .begin = 0, .end = 0};
      has_dtype_ = has_shape_ = has_offsets_ = false;
      state_ = State::tensor;
    } else {
      return misplaced("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) finish_tensor();
    state_ = state_ == State::top ? State::done : State::top;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ == State::tensor && key_ == "shape") {
      state_ = State::shape;
    } else if (state_ == State::tensor && key_ == "data_offsets") {
      state_ = State::offsets;
      num_offsets_ = 0;
    } else {
      return misplaced("a list");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && num_offsets_ != 2) {
      fail("E_OFFSET", "data_offsets must be [begin, end]");
    }
    state_ = State::tensor;
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    if (state_ == State::top && !names_.insert(key_).second) {
      throw FileError("E_DUPLICATE", path_, visible(key_), "this name stands twice in the header");
    }
    if (state_ == State::tensor) {
      if (key_ == "dtype") {
        once(has_dtype_);
      } else if (key_ == "shape") {
        once(has_shape_);
      } else if (key_ == "data_offsets") {
        once(has_offsets_);
      } else {
        fail("E_HEADER_JSON", fmt::format("unknown member '{}'", visible(key_)));
      }
    }
    return true;
  }

  bool parse_error(size_t position,
                   const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string_view text = error.what();
    if (const size_t end = text.find("] "); end != std::string_view::npos)
      text.remove_prefix(end + 2);
    throw FileError(
        "E_HEADER_JSON",
        path_,
        "",
        fmt::format("header is not valid JSON at byte {}: {}", position, visible(text)));
  }

  SafetensorsHeader take() && { return std::move(header_); }

 private:
  enum class State { start, top, metadata, tensor, shape, offsets, done };

  [[noreturn]] void fail(std::string_view code, std::string_view message) const {
    const bool in_tensor =
        state_ == State::tensor || state_ == State::shape || state_ == State::offsets;
    throw FileError(code, path_, visible(in_tensor ? tensor_.name : key_), message);
  }

  bool misplaced(std::string_view what) const {
    if (state_ == State::shape) fail("E_SHAPE", fmt::format("{} is not an extent", what));
    if (state_ == State::offsets) fail("E_OFFSET", fmt::format("{} is not an offset", what));
    fail("E_HEADER_JSON", fmt::format("{} where the format has none", what));
  }

  bool bad_number(std::string_view what) const { return misplaced(what); }

  void once(bool& seen) const {
    if (seen) fail("E_DUPLICATE", fmt::format("'{}' stands twice", key_));
    seen = true;
  }

  bool add_extent(uint64_t extent) {
    if (tensor_.spec.shape.size() == kMaxAxes) {
      fail("E_SHAPE", fmt::format("more than {} axes", kMaxAxes));
    }
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail("E_SHAPE", fmt::format("extent {} does not fit in 63 bits", extent));
    }
    tensor_.spec.shape.push_back(static_cast<int64_t>(extent));
    return true;
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      fail("E_HEADER_JSON", "dtype, shape and data_offsets are all required");
    }
    header_.tensors.push_back(std::move(tensor_));
  }

  std::string_view path_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  State state_ = State::start;
  std::string key_;
  TensorEntry tensor_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  int num_offsets_ = 0;
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
  if (!bytes) fail("E_SHAPE", fmt::format("shape {} does not fit in 64 bits", shape));
  if (*bytes == tensor.size_bytes()) return;
  if (tensor.end > data_bytes) {
    fail("E_OFFSET", fmt::format("ends at {}, the data has {} bytes", tensor.end, data_bytes));
  }
  fail("E_SHAPE",
       fmt::format("{} {} needs {} bytes, data_offsets give {}",
                   dtype_name(tensor.spec.dtype),
                   shape,
                   *bytes,
                   tensor.size_bytes()));
}

// Expects the tensors in file order. An end beyond the data is E_TRUNCATED when the header agrees
// with itself (the file was cut) and E_OFFSET when it does not (the header lies).
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

SafetensorsHeader parse_safetensors_header(std::string_view json,
                                           uint64_t data_bytes,
                                           std::string_view path) {
  if (!json.starts_with('{')) {
    throw FileError("E_HEADER_JSON", path, "", "the header does not begin with '{'");
  }
  // nlohmann's lexer takes a zero byte for the end of its input and would ignore what follows.
  if (json.find('\0') != std::string_view::npos) {
    throw FileError("E_HEADER_JSON", path, "", "the header contains a zero byte");
  }
  HeaderReader reader(path);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = std::move(reader).take();
  for (const TensorEntry& tensor : header.tensors) check_extent(tensor, data_bytes, path);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(header.tensors, data_bytes, path);
  return header;
}

}  // namespace reprise::weights
