#include "reprise/weights/packed_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "reprise/base/error.h"

namespace reprise::weights {
namespace {

constexpr int64_t kBitsOfWord = 32;
constexpr std::string_view kPacked = ".weight_packed";

int64_t words_for(int64_t codes, int64_t bits) {
  const int64_t per_word = kBitsOfWord / bits;
  return codes / per_word + (codes % per_word != 0 ? 1 : 0);
}

std::vector<uint32_t> read_words(const WeightSource& source, const std::string& name) {
  const TensorSpec& spec = require_tensor(source, name);
  if (spec.dtype != DType::i32) {
    throw FileError("E_DTYPE",
                    source.description(),
                    visible(name),
                    fmt::format("is {}, expected int32", dtype_name(spec.dtype)));
  }
  std::vector<uint32_t> words(size_bytes(spec) / sizeof(uint32_t));
  source.read(name, DType::i32, std::as_writable_bytes(std::span(words)));
  return words;
}

class PackedMatrix final : public IntegerMatrix {
 public:
  PackedMatrix(const WeightSource& source, std::string module, std::vector<std::string> parts)
      : IntegerMatrix(source, std::move(parts)), module_(std::move(module)) {
    const auto [outputs, depth] = read_shape();
    set_shape(outputs, depth);
    bits_ = find_bits();
    read_groups();
    choose_panels(static_cast<int>(bits_), read_numbers(source, part(".weight_scale")), zeros());
  }

 protected:
  [[nodiscard]] Codes read_codes() const override {
    Codes read{
        .codes = {}, .scales = read_numbers(source(), part(".weight_scale")), .zeros = zeros()};
    const std::vector<uint32_t> words = read_words(source(), part(kPacked));
    const int64_t row_words = words_for(depth(), bits_);
    read.codes.resize(static_cast<size_t>(outputs() * depth()));
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t k = 0; k < depth(); ++k) {
        const int64_t word = n * row_words + k / per_word();
        read.codes[static_cast<size_t>(n * depth() + k)] =
            code_of(words[static_cast<size_t>(word)], k);
      }
    }
    return read;
  }

 private:
  [[nodiscard]] std::string part(std::string_view suffix) const {
    return module_ + std::string(suffix);
  }
  [[nodiscard]] int64_t per_word() const { return kBitsOfWord / bits_; }
  [[nodiscard]] uint8_t code_of(uint32_t word, int64_t index) const {
    return static_cast<uint8_t>(word >> (index % per_word() * bits_) & ((1U << bits_) - 1));
  }

  [[nodiscard]] std::pair<int64_t, int64_t> read_shape() const {
    const std::string name = part(".weight_shape");
    const TensorSpec& spec = require_tensor(source(), name);
    const bool is_long = spec.dtype == DType::i64;
    if ((!is_long && spec.dtype != DType::i32) || spec.shape != std::vector<int64_t>{2}) {
      fail_shape(source(), name, "int64 [2]");
    }
    const std::vector<std::byte> bytes = read_stored(source(), name);
    int64_t shape[2] = {};
    int32_t narrow[2] = {};
    if (is_long) {
      std::memcpy(shape, bytes.data(), sizeof shape);
    } else {
      std::memcpy(narrow, bytes.data(), sizeof narrow);
      std::ranges::copy(narrow, shape);
    }
    constexpr int64_t kMost = int64_t{1} << 31;
    if (shape[0] < 1 || shape[1] < 1 || shape[0] > kMost || shape[1] > kMost) {
      throw FileError(
          "E_VALUE",
          source().description(),
          visible(name),
          fmt::format("says [{}, {}]; expected two positive sizes", shape[0], shape[1]));
    }
    return {shape[0], shape[1]};
  }

  // The number of words says how many bits a code has.
  [[nodiscard]] int64_t find_bits() const {
    const TensorSpec& packed = require_tensor(source(), part(kPacked));
    for (const int64_t bits : {4, 8}) {
      if (packed.shape == std::vector<int64_t>{outputs(), words_for(depth(), bits)}) return bits;
    }
    fail_shape(source(),
               part(kPacked),
               fmt::format("int32 [{}, {}] for codes of four bits, or [{}, {}] for eight bits, by "
                           "weight_shape",
                           outputs(),
                           words_for(depth(), 4),
                           outputs(),
                           words_for(depth(), 8)));
  }

  void read_groups() {
    const std::string name = part(".weight_scale");
    const TensorSpec& scales = require_tensor(source(), name);
    const bool is_matrix = scales.shape.size() == 2 && scales.shape[0] == outputs();
    const int64_t groups = is_matrix ? scales.shape[1] : 0;
    if (groups < 1 || depth() % groups != 0) {
      fail_shape(source(),
                 name,
                 fmt::format("[{}, a number of groups that divides {}]", outputs(), depth()));
    }
    group_size_ = depth() / groups;
    num_groups_ = groups;
    if (source().has(part(".weight_zero_point"))) {
      require_tensor_shape(
          source(), part(".weight_zero_point"), {words_for(outputs(), bits_), groups});
    }
    if (source().has(part(".weight_g_idx"))) read_group_order(part(".weight_g_idx"));
  }

  void read_group_order(const std::string& name) {
    require_tensor_shape(source(), name, {depth()});
    const std::vector<uint32_t> order = read_words(source(), name);
    // Checkpoints without an order of their own store -1 in all places.
    if (std::ranges::all_of(order, [](uint32_t group) { return group == 0xffffffffU; })) return;
    bool is_neighbouring = true;
    for (size_t k = 0; k < order.size(); ++k) {
      if (std::cmp_greater_equal(order[k], num_groups_)) {
        throw FileError(
            "E_VALUE",
            source().description(),
            visible(name),
            fmt::format(
                "element {} is in group {} of {}", k, static_cast<int32_t>(order[k]), num_groups_));
      }
      is_neighbouring = is_neighbouring && order[k] == k / static_cast<uint64_t>(group_size_);
    }
    if (!is_neighbouring) group_of_.assign(order.begin(), order.end());
  }

  [[nodiscard]] std::vector<uint8_t> zeros() const {
    const auto middle = static_cast<uint8_t>(1U << (bits_ - 1));
    std::vector<uint8_t> zeros(static_cast<size_t>(outputs() * num_groups_), middle);
    const std::string name = part(".weight_zero_point");
    if (!source().has(name)) return zeros;
    const std::vector<uint32_t> words = read_words(source(), name);
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t g = 0; g < num_groups_; ++g) {
        zeros[static_cast<size_t>(n * num_groups_ + g)] =
            code_of(words[static_cast<size_t>(n / per_word() * num_groups_ + g)], n);
      }
    }
    return zeros;
  }

  std::string module_;
  int64_t bits_ = 4;
  int64_t num_groups_ = 1;
};

}  // namespace

MatrixMap find_packed_matrices(const WeightSource& source) {
  MatrixMap matrices;
  for (const std::string_view name : source.names()) {
    if (!name.ends_with(kPacked)) continue;
    const std::string module(name.substr(0, name.size() - kPacked.size()));
    if (source.has(module + ".weight")) {
      throw FileError("E_DUPLICATE",
                      source.description(),
                      visible(module + ".weight"),
                      "is stored as numbers and quantised");
    }
    std::vector<std::string> parts;
    for (const char* suffix : {".weight_packed",
                               ".weight_shape",
                               ".weight_scale",
                               ".weight_zero_point",
                               ".weight_g_idx"}) {
      if (source.has(module + suffix)) parts.push_back(module + suffix);
    }
    matrices.emplace(module + ".weight",
                     std::make_unique<PackedMatrix>(source, module, std::move(parts)));
  }
  return matrices;
}

}  // namespace reprise::weights
