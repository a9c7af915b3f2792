#include "reprise/weights/codecs/bitsandbytes_matrix.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "reprise/base/error.h"
#include "reprise/weights/codecs/float_panel_column.h"
#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr uint64_t kMaxStateBytes = 65536;
constexpr int64_t kMostMatrixElements = int64_t{1} << 40;

// Those members of the JSON text that decoding needs.
struct QuantState {
  int64_t outputs = 0;
  int64_t depth = 0;
  int64_t block_size = 0;
  int64_t nested_block_size = 0;
  float nested_offset = 0;
};

QuantState read_state(const WeightSource& source, const std::string& name) {
  const TensorSpec& spec = require_tensor(source, name);
  if (spec.dtype != DType::u8 || size_bytes(spec) > kMaxStateBytes) {
    fail_shape(source, name, fmt::format("uint8 text of at most {} bytes", kMaxStateBytes));
  }
  const std::vector<std::byte> bytes = read_stored(source, name);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string where = fmt::format("{}: {}", source.description(), visible(name));
  const Json json = parse_json_file(text, where, "E_CONFIG");
  const ConfigReader reader(json, where);
  const std::vector<int64_t> shape = reader.integers("shape", 1, kMostMatrixElements, 2);
  if (shape.size() != 2 || shape[0] > kMostMatrixElements / shape[1]) {
    reader.fail("shape", "must be two sizes of a matrix");
  }
  return {
      .outputs = shape[0],
      .depth = shape[1],
      .block_size = reader.required_integer("blocksize", 1, kMostMatrixElements),
      .nested_block_size = reader.integer("nested_blocksize", 1, kMostMatrixElements).value_or(0),
      .nested_offset = static_cast<float>(reader.number("nested_offset", -1e30, 1e30).value_or(0))};
}

int64_t count_of(const TensorSpec& spec) {
  return static_cast<int64_t>(size_bytes(spec) / dtype_bytes(spec.dtype));
}

void require_count(const WeightSource& source,
                   const std::string& name,
                   int64_t count,
                   std::string_view type) {
  const TensorSpec& spec = require_tensor(source, name);
  if (dtype_name(spec.dtype) != type || count_of(spec) != count) {
    fail_shape(source, name, fmt::format("{} with {} elements", type, count));
  }
}

class BitsAndBytesMatrix final : public QuantizedMatrix {
 public:
  BitsAndBytesMatrix(const WeightSource& source,
                     std::string name,
                     const std::string& state_name,
                     std::vector<std::string> parts)
      : QuantizedMatrix(source, std::move(parts)),
        name_(std::move(name)),
        state_(read_state(source, state_name)) {
    set_shape(state_.outputs, state_.depth);
    const int64_t elements = state_.outputs * state_.depth;
    const int64_t blocks = (elements + state_.block_size - 1) / state_.block_size;
    require_count(source, name_, (elements + 1) / 2, "uint8");
    require_count(source, name_ + ".quant_map", 16, "float32");
    is_nested_ = require_tensor(source, name_ + ".absmax").dtype == DType::u8;
    require_count(source, name_ + ".absmax", blocks, is_nested_ ? "uint8" : "float32");
    if (!is_nested_) return;
    if (state_.nested_block_size == 0) {
      throw FileError("E_VALUE",
                      source.description(),
                      visible(state_name),
                      "has no nested_blocksize, but absmax is quantised");
    }
    require_count(source, name_ + ".nested_quant_map", 256, "float32");
    require_count(source,
                  name_ + ".nested_absmax",
                  (blocks + state_.nested_block_size - 1) / state_.nested_block_size,
                  "float32");
  }

  void read_rows(const OnRow& on_row) const override {
    const std::vector<std::byte> codes = read_stored(source(), name_);
    const std::vector<float> map = read_numbers(source(), name_ + ".quant_map");
    const std::vector<float> largest = read_largest();
    std::vector<float> row(static_cast<size_t>(depth()));
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t k = 0; k < depth(); ++k) {
        row[static_cast<size_t>(k)] = map[code_of(codes, n, k)] * largest[block_of(n, k)];
      }
      on_row(n, row);
    }
  }

  [[nodiscard]] std::optional<PanelFormat> panels() const override {
    constexpr PanelFormat kFormat = PanelFormat::f4_g64;
    const bool has_groups = state_.block_size % float_panel_group(kFormat) == 0;
    return has_groups && is_multiplied_whole(name_) &&
                   fits_float_panels(kFormat, outputs(), depth())
               ? std::optional(kFormat)
               : std::nullopt;
  }
  void read_panels(std::span<std::byte> dst) const override {
    const std::vector<std::byte> codes = read_stored(source(), name_);
    const std::vector<float> map = read_numbers(source(), name_ + ".quant_map");
    const std::vector<float> largest = read_largest();
    std::vector<uint8_t> row(static_cast<size_t>(depth()));
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t k = 0; k < depth(); ++k) {
        row[static_cast<size_t>(k)] = static_cast<uint8_t>(code_of(codes, n, k));
      }
      FloatPanelColumn to(*panels(), dst, depth(), n);
      to.write_codes(std::span<const uint8_t>(row));
      to.write_table(map);
      for (int64_t g = 0; g < depth() / to.group(); ++g) {
        to.write_scale(g, largest[block_of(n, g * to.group())]);
      }
    }
  }

 private:
  // The first of two elements is in the upper half of a byte.
  [[nodiscard]] unsigned code_of(const std::vector<std::byte>& codes, int64_t n, int64_t k) const {
    const int64_t element = n * depth() + k;
    const auto pair = std::to_integer<unsigned>(codes[static_cast<size_t>(element / 2)]);
    return element % 2 == 0 ? pair >> 4 : pair & 15U;
  }
  // The index of an element's block.
  [[nodiscard]] size_t block_of(int64_t n, int64_t k) const {
    return static_cast<size_t>((n * depth() + k) / state_.block_size);
  }
  // The largest magnitude in each block.
  [[nodiscard]] std::vector<float> read_largest() const {
    if (!is_nested_) return read_numbers(source(), name_ + ".absmax");
    const std::vector<std::byte> codes = read_stored(source(), name_ + ".absmax");
    const std::vector<float> map = read_numbers(source(), name_ + ".nested_quant_map");
    const std::vector<float> scales = read_numbers(source(), name_ + ".nested_absmax");
    std::vector<float> largest(codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      const float scale = scales[i / static_cast<size_t>(state_.nested_block_size)];
      largest[i] = map[std::to_integer<size_t>(codes[i])] * scale + state_.nested_offset;
    }
    return largest;
  }

  std::string name_;
  QuantState state_;
  bool is_nested_ = false;  // absmax is quantised too
};

}  // namespace

MatrixMap find_bitsandbytes_matrices(const WeightSource& source) {
  MatrixMap matrices;
  for (const std::string_view state : source.names()) {
    const size_t end = state.find(kState);
    if (end == std::string_view::npos) continue;
    const std::string name(state.substr(0, end));
    std::vector<std::string> parts = {name, std::string(state)};
    for (const char* suffix : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) {
      if (source.has(name + suffix)) parts.push_back(name + suffix);
    }
    (void)require_tensor(source, name);
    matrices.emplace(
        name,
        std::make_unique<BitsAndBytesMatrix>(source, name, std::string(state), std::move(parts)));
  }
  return matrices;
}

}  // namespace reprise::weights
