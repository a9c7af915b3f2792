#include "reprise/weights/codecs/packed_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "reprise/base/error.h"
#include "reprise/weights/codecs/nvfp4_matrix.h"

namespace reprise::weights {
namespace {

constexpr int64_t kBitsOfWord = 32;
constexpr std::string_view kPacked = ".weight_packed";

int64_t words_for(int64_t codes, int64_t bits) {
  const int64_t per_word = kBitsOfWord / bits;
  return codes / per_word + (codes % per_word != 0 ? 1 : 0);
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

  // The bits of a code, from the number of words.
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
    if (source().has(part(".weight_zero_point"))) {
      require_tensor_shape(
          source(), part(".weight_zero_point"), {words_for(outputs(), bits_), groups});
    }
    if (has_group_order()) read_group_order(part(".weight_g_idx"));
  }

  // A checkpoint without an order of its own stores -1 everywhere.
  [[nodiscard]] bool has_group_order() const {
    const std::string name = part(".weight_g_idx");
    return source().has(name) &&
           std::ranges::any_of(read_words(source(), name),
                               [](uint32_t group) { return group != 0xffffffffU; });
  }

  [[nodiscard]] std::vector<uint16_t> zeros() const {
    const auto middle = static_cast<uint16_t>(1U << (bits_ - 1));
    std::vector<uint16_t> zeros(static_cast<size_t>(outputs() * num_groups()), middle);
    const std::string name = part(".weight_zero_point");
    if (!source().has(name)) return zeros;
    const std::vector<uint32_t> words = read_words(source(), name);
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t g = 0; g < num_groups(); ++g) {
        zeros[static_cast<size_t>(n * num_groups() + g)] =
            code_of(words[static_cast<size_t>(n / per_word() * num_groups() + g)], n);
      }
    }
    return zeros;
  }

  std::string module_;
  int64_t bits_ = 4;
};

}  // namespace

MatrixMap find_packed_matrices(const WeightSource& source) {
  return find_matrices(
      source,
      {kPacked, ".weight_shape", ".weight_scale", ".weight_zero_point", ".weight_g_idx"},
      [&](std::string module, std::vector<std::string> parts) -> std::unique_ptr<QuantizedMatrix> {
        if (source.has(module + std::string(kNvfp4GlobalScale))) return nullptr;
        return std::make_unique<PackedMatrix>(source, std::move(module), std::move(parts));
      });
}

}  // namespace reprise::weights
