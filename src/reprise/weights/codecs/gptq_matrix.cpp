#include "reprise/weights/codecs/gptq_matrix.h"

#include <array>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::weights {
namespace {

constexpr int64_t kWordBits = 32;
constexpr std::string_view kQweight = ".qweight";

// AWQ: place p of a word holds the code of output 8w + kAwqOrder[p].
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

class GptqMatrix final : public IntegerMatrix {
 public:
  GptqMatrix(const WeightSource& source,
             std::string module,
             std::vector<std::string> parts,
             const QuantizationConfig& config)
      : IntegerMatrix(source, std::move(parts)), module_(std::move(module)), config_(config) {
    read_shape();
    group_size_ = config_.group_size == 0 ? depth() : config_.group_size;
    require_tensor_shape(source, part(".scales"), {num_groups(), outputs()});
    require_tensor_shape(source, part(".qzeros"), {num_groups(), words_of_outputs()});
    if (source.has(part(".g_idx"))) read_group_order(part(".g_idx"));
    choose_panels(config_.bits, scales(), zeros());
  }

 protected:
  [[nodiscard]] Codes read_codes() const override {
    Codes read{.codes = {}, .scales = scales(), .zeros = zeros()};
    const std::vector<uint32_t> words = read_words(source(), part(kQweight));
    read.codes.resize(static_cast<size_t>(outputs() * depth()));
    uint8_t* codes = read.codes.data();
    if (is_awq()) {
      for (int64_t w = 0; w < words_of_outputs(); ++w) {
        for (int64_t k = 0; k < depth(); ++k) {
          const uint32_t word = words[static_cast<size_t>(k * words_of_outputs() + w)];
          for (int64_t p = 0; p < per_word(); ++p) {
            codes[output_at(w, p) * depth() + k] = code_of(word, p);
          }
        }
      }
      return read;
    }
    for (int64_t k = 0; k < depth(); k += per_word()) {
      for (int64_t n = 0; n < outputs(); ++n) {
        const uint32_t word = words[static_cast<size_t>(k / per_word() * outputs() + n)];
        for (int64_t p = 0; p < per_word(); ++p) codes[n * depth() + k + p] = code_of(word, p);
      }
    }
    return read;
  }

 private:
  [[nodiscard]] std::string part(std::string_view suffix) const {
    return module_ + std::string(suffix);
  }
  [[nodiscard]] bool is_awq() const { return config_.method == QuantizationMethod::awq; }
  [[nodiscard]] int64_t per_word() const { return kWordBits / config_.bits; }
  [[nodiscard]] int64_t words_of_outputs() const {
    return (outputs() + per_word() - 1) / per_word();
  }
  [[nodiscard]] uint8_t code_of(uint32_t word, int64_t place) const {
    return static_cast<uint8_t>(word >> (place * config_.bits) & ((1U << config_.bits) - 1));
  }
  // The index of the output at a place of a word, if words are packed along the outputs.
  [[nodiscard]] int64_t output_at(int64_t word, int64_t place) const {
    return word * per_word() + (is_awq() ? kAwqOrder[static_cast<size_t>(place)] : place);
  }

  void read_shape() {
    const TensorSpec& codes = require_tensor(source(), part(kQweight));
    const TensorSpec& scales = require_tensor(source(), part(".scales"));
    constexpr int64_t kMost = int64_t{1} << 31;
    const auto is_matrix = [](const TensorSpec& spec) {
      return spec.shape.size() == 2 && spec.shape[0] > 0 && spec.shape[1] > 0 &&
             spec.shape[0] <= kMost && spec.shape[1] <= kMost;
    };
    if (codes.dtype != DType::i32 || !is_matrix(codes)) {
      fail_shape(source(), part(kQweight), "int32 of two dimensions");
    }
    if (!is_matrix(scales)) fail_shape(source(), part(".scales"), "two dimensions");
    set_shape(codes.shape[1] * (is_awq() ? per_word() : 1),
              codes.shape[0] * (is_awq() ? 1 : per_word()));
  }

  [[nodiscard]] std::vector<float> scales() const {
    const std::vector<float> stored = read_numbers(source(), part(".scales"));
    std::vector<float> scales(stored.size());
    for (int64_t g = 0; g < num_groups(); ++g) {
      for (int64_t n = 0; n < outputs(); ++n) {
        scales[static_cast<size_t>(n * num_groups() + g)] =
            stored[static_cast<size_t>(g * outputs() + n)];
      }
    }
    return scales;
  }

  [[nodiscard]] std::vector<uint16_t> zeros() const {
    const std::vector<uint32_t> words = read_words(source(), part(".qzeros"));
    const int offset = config_.stores_zeros_minus_1 ? 1 : 0;
    std::vector<uint16_t> zeros(static_cast<size_t>(outputs() * num_groups()));
    for (int64_t g = 0; g < num_groups(); ++g) {
      for (int64_t w = 0; w < words_of_outputs(); ++w) {
        const uint32_t word = words[static_cast<size_t>(g * words_of_outputs() + w)];
        for (int64_t p = 0; p < per_word(); ++p) {
          const int64_t output = output_at(w, p);
          if (output >= outputs()) continue;
          zeros[static_cast<size_t>(output * num_groups() + g)] =
              static_cast<uint16_t>(code_of(word, p) + offset);
        }
      }
    }
    return zeros;
  }

  std::string module_;
  QuantizationConfig config_;
};

}  // namespace

MatrixMap find_gptq_matrices(const WeightSource& source, const QuantizationConfig& config) {
  return find_matrices(source,
                       {kQweight, ".qzeros", ".scales", ".g_idx"},
                       [&](std::string module, std::vector<std::string> parts) {
                         return std::make_unique<GptqMatrix>(
                             source, std::move(module), std::move(parts), config);
                       });
}

}  // namespace reprise::weights
