#include "reprise/kernels/product_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::kernels {
namespace {

constexpr int kVersion = 1;
// Far more than all products of all models of one card have. A table of 100,000 measured rows has
// about 30 MB.
constexpr JsonLimits kLimits = {.max_bytes = size_t{32} << 20, .max_depth = 8};
constexpr int64_t kMostRows = int64_t{1} << 20;
constexpr int64_t kMostElements = int64_t{1} << 40;

constexpr std::array kTunedOps = {OpCode::linear,
                                  OpCode::linear_add,
                                  OpCode::linear_silu_and_mul,
                                  OpCode::linear_rope_kv_write,
                                  OpCode::linear_silu_and_mul_quantize_blocks,
                                  OpCode::expert_linear,
                                  OpCode::lm_head};
constexpr std::array kTypes = {DType::f32, DType::bf16, DType::f16};
constexpr std::array<int64_t, 4> kTiles = {0, 8, 16, 32};

std::string_view name_of(ProductChoice::Kernel kernel) {
  switch (kernel) {
    case ProductChoice::Kernel::own:
      return "own";
    case ProductChoice::Kernel::library:
      return "library";
    case ProductChoice::Kernel::streamed:
      return "streamed";
    case ProductChoice::Kernel::built_in:
      break;
  }
  return "built-in";
}

bool has_tiles(ProductChoice::Kernel kernel) {
  return kernel == ProductChoice::Kernel::own || kernel == ProductChoice::Kernel::streamed;
}

bool is_packed(const ProductShape& shape) { return shape.weight.family != WeightFamily::rows; }

std::string text_of(const std::array<uint64_t, 8>& algorithm) {
  std::string text;
  for (uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

Json to_json(int64_t rows, const MeasuredRows& measured) {
  const ProductChoice& choice = measured.choice;
  Json json = {{"rows", rows}, {"kernel", name_of(choice.kernel)}};
  if (has_tiles(choice.kernel)) {
    json["tile_columns"] = choice.tile_columns;
  } else if (choice.kernel == ProductChoice::Kernel::library) {
    json["algorithm"] = text_of(choice.algorithm);
  }
  json["us"] = measured.microseconds;
  json["built_in_us"] = measured.built_in_microseconds;
  return json;
}

Json to_json(const ProductShape& shape, const ProductTable::Rows& rows) {
  Json json = {{"op", op_name(shape.op)},
               {"norm", shape.has_norm},
               {"bias", shape.has_bias},
               {"type", dtype_name(shape.type)},
               {"out_type", dtype_name(shape.out_type)},
               {"columns", shape.columns},
               {"depth", shape.depth},
               {"x_stride", shape.x_stride}};
  if (is_packed(shape)) json["weight"] = shape.weight.layout().to_string();
  json["measured"] = Json::array();
  for (const auto& [count, measured] : rows) json["measured"].push_back(to_json(count, measured));
  return json;
}

/// Reads the members of one object. Each member is asked for once; a member that is not asked for
/// is an error.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
    if (!object.is_object()) fail("expected an object");
  }

  [[nodiscard]] const Json& get(const char* name) {
    const auto found = object_->find(name);
    if (found == object_->end()) fail(fmt::format("'{}' is missing", name));
    ++num_read_;
    return *found;
  }
  [[nodiscard]] bool has(const char* name) const { return object_->contains(name); }
  [[nodiscard]] bool boolean(const char* name) {
    const Json& value = get(name);
    if (!value.is_boolean()) fail(fmt::format("'{}': expected true or false", name));
    return value.get<bool>();
  }
  [[nodiscard]] int64_t integer(const char* name, int64_t least, int64_t most) {
    const Json& value = get(name);
    // A number above the range of int64_t is unsigned and would wrap around.
    const bool fits = value.is_number_unsigned() &&
                      value.get<uint64_t>() <= static_cast<uint64_t>(most) &&
                      value.get<int64_t>() >= least;
    if (!fits) fail(fmt::format("'{}': expected an integer from {} to {}", name, least, most));
    return value.get<int64_t>();
  }
  [[nodiscard]] double microseconds(const char* name) {
    const Json& value = get(name);
    if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>())) {
      fail(fmt::format("'{}': expected a positive number", name));
    }
    return value.get<double>();
  }
  [[nodiscard]] std::string text(const char* name) {
    const Json& value = get(name);
    if (!value.is_string()) fail(fmt::format("'{}': expected a text", name));
    return value.get<std::string>();
  }
  /// The value among `values` whose name the member has.
  template <typename Values, typename NameOf>
  [[nodiscard]] auto one_of(const char* name, const Values& values, const NameOf& name_of) {
    const std::string wanted = text(name);
    for (const auto& value : values) {
      if (name_of(value) == wanted) return value;
    }
    fail(fmt::format("'{}': unknown value '{}'", name, wanted));
  }
  void require_no_others() const {
    if (num_read_ != object_->size()) fail("there are unknown members");
  }
  [[noreturn]] void fail(std::string_view why) const {
    throw InvalidArgument(fmt::format("{}: {}", where_, why));
  }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }

 private:
  const Json* object_;
  std::string where_;
  size_t num_read_ = 0;
};

std::array<uint64_t, 8> algorithm_of(Members& members) {
  const std::string text = members.text("algorithm");
  std::array<uint64_t, 8> algorithm{};
  if (text.size() != 16 * algorithm.size()) {
    members.fail("'algorithm': expected 128 hexadecimal digits");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'a' && c <= 'f')) {
      members.fail("'algorithm': expected 128 hexadecimal digits");
    }
    const auto value = static_cast<uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
    algorithm.at(i / 16) = algorithm.at(i / 16) << 4 | value;
  }
  return algorithm;
}

MeasuredRows parse_measured(Members& members) {
  using Kernel = ProductChoice::Kernel;
  MeasuredRows measured;
  measured.choice.kernel =
      members.one_of("kernel",
                     std::array{Kernel::built_in, Kernel::own, Kernel::library, Kernel::streamed},
                     name_of);
  if (has_tiles(measured.choice.kernel)) {
    measured.choice.tile_columns =
        static_cast<int32_t>(members.integer("tile_columns", kTiles.front(), kTiles.back()));
    if (std::ranges::count(kTiles, measured.choice.tile_columns) == 0) {
      members.fail("'tile_columns': expected 0, 8, 16 or 32");
    }
  } else if (measured.choice.kernel == Kernel::library) {
    measured.choice.algorithm = algorithm_of(members);
  }
  measured.microseconds = members.microseconds("us");
  measured.built_in_microseconds = members.microseconds("built_in_us");
  members.require_no_others();
  return measured;
}

ProductShape parse_shape(Members& members) {
  ProductShape shape;
  shape.op = members.one_of("op", kTunedOps, op_name);
  shape.has_norm = members.boolean("norm");
  shape.has_bias = members.boolean("bias");
  shape.type = members.one_of("type", kTypes, dtype_name);
  shape.out_type = members.one_of("out_type", kTypes, dtype_name);
  shape.columns = members.integer("columns", 1, kMostElements);
  shape.depth = members.integer("depth", 1, kMostElements);
  shape.x_stride = members.integer("x_stride", shape.depth, kMostElements);
  if (members.has("weight")) {
    const std::string text = members.text("weight");
    const std::optional<WeightLayout> layout = parse_weight_layout(text, shape.depth);
    if (!layout || layout->is_rows()) {
      members.fail(fmt::format("'weight': unknown layout '{}'", text));
    }
    shape.weight = PackedForm(*layout);
  }
  return shape;
}

const Json& list_of(Members& members, const char* name) {
  const Json& list = members.get(name);
  if (!list.is_array()) members.fail(fmt::format("'{}': expected a list", name));
  return list;
}

void parse_product(const Json& json, std::string where, ProductTable& table) {
  Members members(json, std::move(where));
  const ProductShape shape = parse_shape(members);
  const Json& list = list_of(members, "measured");
  members.require_no_others();
  if (list.empty()) members.fail("'measured' is empty");
  for (size_t i = 0; i < list.size(); ++i) {
    Members row(list[i], fmt::format("{}, measured[{}]", members.where(), i));
    const int64_t rows = row.integer("rows", 1, kMostRows);
    if (table.has(shape, rows)) row.fail("these rows of this product are listed twice");
    table.set(shape, rows, parse_measured(row));
  }
}

}  // namespace

std::string describe(const ProductShape& shape) {
  std::string text = fmt::format(
      "{} {}x{} {}", op_name(shape.op), shape.columns, shape.depth, dtype_name(shape.type));
  if (is_packed(shape)) text += fmt::format(", {}", shape.weight.layout().to_string());
  if (shape.out_type != shape.type) text += fmt::format(" to {}", dtype_name(shape.out_type));
  if (shape.has_norm) text += ", normed";
  if (shape.has_bias) text += ", bias";
  if (shape.x_stride != shape.depth) text += fmt::format(", stride {}", shape.x_stride);
  return text;
}

std::string describe(const ProductChoice& choice) {
  switch (choice.kernel) {
    case ProductChoice::Kernel::own:
    case ProductChoice::Kernel::streamed:
      return choice.tile_columns == 0
                 ? std::string(name_of(choice.kernel))
                 : fmt::format("{}, tiles of {}", name_of(choice.kernel), choice.tile_columns);
    case ProductChoice::Kernel::library: {
      // A short name that tells the algorithms of a table apart.
      uint64_t mixed = 0;
      for (uint64_t word : choice.algorithm)
        mixed = std::rotl(mixed, 7) * 0x9E3779B97F4A7C15U ^ word;
      return fmt::format("library {:04x}", (mixed * 0x9E3779B97F4A7C15U) >> 48);
    }
    case ProductChoice::Kernel::built_in:
      break;
  }
  return "built-in";
}

const ProductChoice* ProductTable::find(const ProductShape& shape, int64_t rows) const {
  const auto product = products_.find(shape);
  if (product == products_.end() || rows < 1) return nullptr;
  auto measured = product->second.find(rows);
  if (measured == product->second.end()) {
    const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
    measured = product->second.find(padded);
  }
  if (measured == product->second.end()) return nullptr;
  const ProductChoice& choice = measured->second.choice;
  return choice.kernel == ProductChoice::Kernel::built_in ? nullptr : &choice;
}

bool ProductTable::has(const ProductShape& shape, int64_t rows) const {
  const auto product = products_.find(shape);
  return product != products_.end() && product->second.contains(rows);
}

void ProductTable::set(const ProductShape& shape, int64_t rows, const MeasuredRows& measured) {
  products_[shape][rows] = measured;
}

void ProductTable::merge(const ProductTable& other) {
  for (const auto& [shape, rows] : other.products_) {
    products_[shape].insert(rows.begin(), rows.end());
  }
}

size_t ProductTable::num_measured() const noexcept {
  size_t count = 0;
  for (const auto& [shape, rows] : products_) count += rows.size();
  return count;
}

size_t ProductTable::num_changed() const noexcept {
  size_t count = 0;
  for (const auto& [shape, rows] : products_) {
    count += static_cast<size_t>(std::ranges::count_if(rows, [](const auto& row) {
      return row.second.choice.kernel != ProductChoice::Kernel::built_in;
    }));
  }
  return count;
}

std::string print(const ProductTable& table) {
  std::string text = fmt::format("{{\"version\": {}, \"products\": [", kVersion);
  const char* separator = "\n";
  for (const auto& [shape, rows] : table.products()) {
    text += separator + to_json(shape, rows).dump();
    separator = ",\n";
  }
  return text + "\n]}\n";
}

ProductTable parse_product_table(std::string_view text, std::string_view where) {
  const Json document = parse_json(text, where, kLimits);
  Members members(document, std::string(where));
  (void)members.integer("version", kVersion, kVersion);
  const Json& list = list_of(members, "products");
  members.require_no_others();
  ProductTable table;
  for (size_t i = 0; i < list.size(); ++i) {
    parse_product(list[i], fmt::format("{}: products[{}]", where, i), table);
  }
  return table;
}

}  // namespace reprise::kernels
