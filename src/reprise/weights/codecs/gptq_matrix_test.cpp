#include "reprise/weights/codecs/gptq_matrix.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "reprise/base/json.h"
#include "reprise/tensor/packed_weight.h"
#include "tests/support/weights/memory_weights.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

// One matrix as its formats define it: element [n][k] is scale[g][n] * (code[n][k] - zero[g][n]).
struct Plain {
  int64_t outputs = 0;
  int64_t depth = 0;
  int64_t group_size = 0;
  int bits = 4;
  std::vector<int> codes;       // [outputs][depth]
  std::vector<int> zeros;       // [groups][outputs]
  std::vector<Float16> scales;  // [groups][outputs]
  std::vector<int> group_of;    // by element

  [[nodiscard]] int64_t groups() const { return (depth + group_size - 1) / group_size; }
  [[nodiscard]] float value(int64_t n, int64_t k) const {
    const auto at = static_cast<size_t>(group_of[static_cast<size_t>(k)] * outputs + n);
    return to_float(scales[at]) *
           static_cast<float>(codes[static_cast<size_t>(n * depth + k)] - zeros[at]);
  }
};

Plain random_matrix(int64_t outputs, int64_t depth, int64_t group_size, int bits = 4) {
  std::mt19937 random(static_cast<uint32_t>(outputs * 31 + depth + bits));
  Plain plain{.outputs = outputs, .depth = depth, .group_size = group_size, .bits = bits};
  for (int64_t i = 0; i < outputs * depth; ++i) {
    plain.codes.push_back(static_cast<int>(random() % (1U << bits)));
  }
  for (int64_t i = 0; i < plain.groups() * outputs; ++i) {
    plain.zeros.push_back(bits == 8 ? 128 : static_cast<int>(1 + random() % 15));
    plain.scales.push_back(Float16{f32_to_f16(0.01F + static_cast<float>(random() % 97) * 1e-3F)});
  }
  for (int64_t k = 0; k < depth; ++k) plain.group_of.push_back(static_cast<int>(k / group_size));
  return plain;
}

// Packs each row of `row` numbers into words. Of the numbers that share a word, number place_of[p]
// goes to place p, where place 0 is the lowest bits.
std::vector<int32_t> packed_rows(const std::vector<int>& numbers,
                                 int64_t row,
                                 int bits,
                                 const std::array<int64_t, 8>& place_of) {
  const int64_t per_word = 32 / bits;
  std::vector<int32_t> words;
  for (int64_t begin = 0; std::cmp_less(begin, numbers.size()); begin += row) {
    for (int64_t w = 0; w < row; w += per_word) {
      uint32_t word = 0;
      for (int64_t p = 0; p < per_word; ++p) {
        const int64_t from = w + place_of[static_cast<size_t>(p)];
        const uint32_t number =
            from < row ? static_cast<uint32_t>(numbers[static_cast<size_t>(begin + from)]) : 0;
        word |= (number & ((1U << bits) - 1)) << (p * bits);
      }
      words.push_back(static_cast<int32_t>(word));
    }
  }
  return words;
}

constexpr std::array<int64_t, 8> kInOrder = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<int64_t, 8> kAwq = {0, 2, 4, 6, 1, 3, 5, 7};

std::vector<int> transposed(const std::vector<int>& matrix, int64_t rows, int64_t columns) {
  std::vector<int> result;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      result.push_back(matrix[static_cast<size_t>(r * columns + c)]);
    }
  }
  return result;
}

// AutoGPTQ: words hold neighbouring elements; stored zeros are smaller by one.
MemoryWeights gptq(const Plain& m, const std::string& module = "m") {
  const int64_t per_word = 32 / m.bits;
  const std::vector<int32_t> by_output = packed_rows(m.codes, m.depth, m.bits, kInOrder);
  std::vector<int> words(by_output.begin(), by_output.end());
  words = transposed(words, m.outputs, m.depth / per_word);
  std::vector<int> stored_zeros = m.zeros;
  for (int& zero : stored_zeros) zero -= 1;
  MemoryWeights weights;
  weights
      .add(module + ".qweight",
           DType::i32,
           {m.depth / per_word, m.outputs},
           std::vector<int32_t>(words.begin(), words.end()))
      .add(module + ".qzeros",
           DType::i32,
           {m.groups(), (m.outputs + per_word - 1) / per_word},
           packed_rows(stored_zeros, m.outputs, m.bits, kInOrder))
      .add(module + ".scales", DType::f16, {m.groups(), m.outputs}, m.scales)
      .add(module + ".g_idx",
           DType::i32,
           {m.depth},
           std::vector<int32_t>(m.group_of.begin(), m.group_of.end()));
  return weights;
}

// AutoAWQ's gemm: words hold neighbouring outputs in another order.
MemoryWeights awq(const Plain& m) {
  MemoryWeights weights;
  weights
      .add("m.qweight",
           DType::i32,
           {m.depth, m.outputs / 8},
           packed_rows(transposed(m.codes, m.outputs, m.depth), m.outputs, 4, kAwq))
      .add("m.qzeros",
           DType::i32,
           {m.groups(), m.outputs / 8},
           packed_rows(m.zeros, m.outputs, 4, kAwq))
      .add("m.scales", DType::f16, {m.groups(), m.outputs}, m.scales);
  return weights;
}

QuantizationConfig gptq_config(const Plain& m) {
  return {.method = QuantizationMethod::gptq,
          .bits = m.bits,
          .group_size = m.group_size,
          .stores_zeros_minus_1 = true};
}
QuantizationConfig awq_config(const Plain& m) {
  return {.method = QuantizationMethod::awq, .bits = 4, .group_size = m.group_size};
}

QuantizedMatrices checkpoint(MemoryWeights weights, const QuantizationConfig& config) {
  auto source = std::make_unique<MemoryWeights>(std::move(weights));
  MatrixMap matrices = find_gptq_matrices(*source, config);
  return {std::move(source), std::move(matrices)};
}

void expect_values(const QuantizedMatrices& source, const Plain& m) {
  ASSERT_NE(source.find("m.weight"), nullptr);
  EXPECT_EQ(source.find("m.weight")->shape, (std::vector<int64_t>{m.outputs, m.depth}));
  const std::vector<float> values = read_f32(source, "m.weight");
  for (int64_t n = 0; n < m.outputs; ++n) {
    for (int64_t k = 0; k < m.depth; ++k) {
      ASSERT_EQ(values[static_cast<size_t>(n * m.depth + k)], m.value(n, k)) << n << ", " << k;
    }
  }
}

void expect_panels(const QuantizedMatrices& source, const Plain& m, PanelFormat format) {
  ASSERT_EQ(source.panel_format("m.weight"), format);
  const PanelPart part = {.format = format, .columns = m.outputs};
  std::vector<uint8_t> packed(static_cast<size_t>(packed_weight_bytes({&part, 1}, m.depth)));
  const PanelHeader header = make_panel_header({&part, 1}, m.depth);
  std::memcpy(packed.data(), &header, sizeof header);
  source.read_panels("m.weight",
                     std::as_writable_bytes(std::span(packed)).subspan(kPanelHeaderBytes));
  for (int64_t n = 0; n < m.outputs; ++n) {
    for (int64_t k = 0; k < m.depth; ++k) {
      ASSERT_NEAR(panel_element(packed.data(), n, k), m.value(n, k), 1e-6) << n << ", " << k;
    }
  }
}

TEST(GptqMatrix, reads_and_packs_gptq_matrices) {
  const Plain whole = random_matrix(24, 256, 256);
  QuantizationConfig whole_rows = gptq_config(whole);
  whole_rows.group_size = 0;
  const QuantizedMatrices rows = checkpoint(gptq(whole), whole_rows);
  expect_values(rows, whole);
  expect_panels(rows, whole, PanelFormat::int4_g128);
  const Plain wide = random_matrix(40, 256, 128);
  expect_values(checkpoint(gptq(wide), gptq_config(wide)), wide);
  expect_panels(checkpoint(gptq(wide), gptq_config(wide)), wide, PanelFormat::int4_g128);
  const Plain narrow = random_matrix(16, 96, 32);
  expect_panels(checkpoint(gptq(narrow), gptq_config(narrow)), narrow, PanelFormat::int4_g32);
  const Plain eight = random_matrix(20, 256, 128, 8);
  expect_values(checkpoint(gptq(eight), gptq_config(eight)), eight);
  expect_panels(checkpoint(gptq(eight), gptq_config(eight)), eight, PanelFormat::int8_g128);
}

TEST(GptqMatrix, reads_and_packs_awq_matrices) {
  const Plain m = random_matrix(40, 256, 128);
  const QuantizedMatrices source = checkpoint(awq(m), awq_config(m));
  expect_values(source, m);
  expect_panels(source, m, PanelFormat::int4_g128);
  EXPECT_EQ(source.matrices_without_panels(), "");
}

TEST(GptqMatrix, dequantises_what_is_ordered_by_activation) {
  Plain m = random_matrix(16, 64, 32);
  for (size_t k = 0; k < m.group_of.size(); ++k) m.group_of[k] = static_cast<int>(k * 7 % 5 % 2);
  const QuantizedMatrices source = checkpoint(gptq(m), gptq_config(m));
  EXPECT_EQ(source.panel_format("m.weight"), std::nullopt);
  EXPECT_EQ(source.matrices_without_panels(), "1 matrix");
  expect_values(source, m);
}

TEST(GptqMatrix, keeps_a_zero_beyond_the_largest_code) {
  Plain m = random_matrix(16, 64, 32, 8);
  for (int& zero : m.zeros) zero = 256;  // stored as 255
  const QuantizedMatrices source = checkpoint(gptq(m), gptq_config(m));
  EXPECT_EQ(source.panel_format("m.weight"), std::nullopt);
  expect_values(source, m);
}

TEST(GptqMatrix, shows_matrices_in_place_of_their_parts) {
  const Plain m = random_matrix(16, 64, 32);
  MemoryWeights weights = gptq(m, "model.layers.0.mlp.up_proj");
  weights.add("model.norm.weight", DType::f32, {2}, std::vector<float>{1, 2});
  const QuantizedMatrices source = checkpoint(std::move(weights), gptq_config(m));
  EXPECT_EQ(
      source.names(),
      (std::vector<std::string_view>{"model.layers.0.mlp.up_proj.weight", "model.norm.weight"}));
  EXPECT_EQ(read_f32(source, "model.norm.weight"), (std::vector<float>{1, 2}));
  EXPECT_EQ(source.panel_format("model.norm.weight"), std::nullopt);
  EXPECT_EQ(source.stored_bytes("model.layers.0.mlp.up_proj.weight"),
            16U * 64 / 2 + 2 * 2 * 4 + 2 * 16 * 2 + 64 * 4);
}

TEST(GptqMatrix, names_the_part_that_does_not_fit) {
  const Plain m = random_matrix(16, 64, 32);
  const auto message = [&](MemoryWeights weights) {
    return message_of([&] { checkpoint(std::move(weights), gptq_config(m)); });
  };
  const auto expect_refusal =
      [&](MemoryWeights weights, std::string_view code, std::string_view name) {
        EXPECT_EQ(code_of([&] { checkpoint(weights, gptq_config(m)); }), code);
        EXPECT_NE(message(weights).find(name), std::string::npos) << message(weights);
      };
  expect_refusal(gptq(m).remove("m.scales"), "E_MISSING", "m.scales");
  expect_refusal(gptq(m).remove("m.qzeros"), "E_MISSING", "m.qzeros");
  const std::vector<int32_t> few = {1, 2, 3, 4};
  expect_refusal(gptq(m).add("m.qzeros", DType::i32, {2, 2, 1}, few), "E_SHAPE", "m.qzeros");
  expect_refusal(gptq(m).add("m.qweight", DType::i32, {4}, few), "E_SHAPE", "m.qweight");
  expect_refusal(
      gptq(m).add("m.qweight", DType::f32, {2, 2}, std::vector<float>(4)), "E_SHAPE", "m.qweight");
  expect_refusal(gptq(m).add("m.qweight", DType::i32, {2, 2}, few), "E_SHAPE", "m.scales");
  expect_refusal(gptq(m).add("m.g_idx", DType::i32, {64}, std::vector<int32_t>(64, 2)),
                 "E_VALUE",
                 "group 2 of 2");
  expect_refusal(gptq(m).add("m.g_idx", DType::i32, {64}, std::vector<int32_t>(64, -1)),
                 "E_VALUE",
                 "group -1 of 2");
  expect_refusal(
      gptq(m).add("m.g_idx", DType::f32, {64}, std::vector<float>(64)), "E_DTYPE", "m.g_idx");
  expect_refusal(
      gptq(m).add("m.weight", DType::f32, {1}, std::vector<float>(1)), "E_DUPLICATE", "m.weight");
}

QuantizationConfig read_config(const char* text) {
  const Json json = parse_json(text, "config.json");
  return read_quantization_config(ConfigReader(json, "config.json"));
}

TEST(QuantizationConfig, reads_what_quantisers_write) {
  EXPECT_EQ(read_config("{}").method, QuantizationMethod::none);
  const QuantizationConfig gptq = read_config(
      R"({"quantization_config":{"quant_method":"gptq","bits":8,"group_size":-1,"desc_act":true}})");
  EXPECT_EQ(gptq,
            (QuantizationConfig{.method = QuantizationMethod::gptq,
                                .bits = 8,
                                .group_size = 0,
                                .stores_zeros_minus_1 = true}));
  const QuantizationConfig awq = read_config(
      R"({"quantization_config":{"quant_method":"awq","w_bit":4,"q_group_size":64,
          "version":"GEMM","zero_point":true}})");
  EXPECT_EQ(awq,
            (QuantizationConfig{.method = QuantizationMethod::awq, .bits = 4, .group_size = 64}));
  const auto modelopt = [](const std::string& more) {
    return read_config(fmt::format(R"({{"quantization_config":{{"quant_method":"modelopt",
        "quant_algo":"NVFP4","group_size":16,"exclude_modules":["lm_head"]{}}}}})",
                                   more)
                           .c_str());
  };
  QuantizationConfig nvfp4{.method = QuantizationMethod::modelopt, .bits = 4};
  EXPECT_EQ(modelopt(R"(,"kv_cache_quant_algo":null)"), nvfp4);
  nvfp4.has_float8_cache = true;
  EXPECT_EQ(modelopt(R"(,"kv_cache_quant_algo":"FP8")"), nvfp4);
  EXPECT_THROW((void)modelopt(R"(,"kv_cache_quant_algo":"NVFP4")"), FileError);
  EXPECT_EQ(modelopt(R"(,"kv_cache_scheme":{"dynamic":false,"num_bits":8,"type":"float"})"), nvfp4);
}

TEST(QuantizationConfig, auto_round_is_gptq_or_awq) {
  const auto auto_round = [](const std::string& more) {
    return read_config(fmt::format(R"({{"quantization_config":{{"quant_method":"auto-round",
        "bits":4,"group_size":64,"sym":true,"data_type":"int"{}}}}})",
                                   more)
                           .c_str());
  };
  const QuantizationConfig gptq{.method = QuantizationMethod::gptq,
                                .bits = 4,
                                .group_size = 64,
                                .stores_zeros_minus_1 = true};
  EXPECT_EQ(auto_round(""), gptq);
  EXPECT_EQ(auto_round(R"(,"packing_format":"auto_round:auto_gptq","extra_config":null)"), gptq);
  EXPECT_EQ(auto_round(R"(,"packing_format":"auto_round:auto_awq")"),
            (QuantizationConfig{.method = QuantizationMethod::awq, .bits = 4, .group_size = 64}));
  EXPECT_EQ(auto_round(R"(,"extra_config":{"lm_head":{"bits":16,"data_type":"fp"},
                "model.layers.0.mlp.up_proj":{"bits":4,"group_size":64},"a":{}})"),
            gptq);
  for (const char* more : {R"(,"extra_config":{"lm_head":{"bits":8}})",
                           R"(,"extra_config":{"lm_head":{"group_size":32}})",
                           R"(,"packing_format":"auto_round:fp8")",
                           R"(,"packing_format":"auto_round")"}) {
    EXPECT_THROW((void)auto_round(more), FileError) << more;
  }
  EXPECT_THROW((void)read_config(R"({"quantization_config":{"quant_method":"auto-round","bits":4,
      "data_type":"mx_fp"}})"),
               FileError);
}

TEST(QuantizationConfig, finds_activations_with_one_scale_per_token) {
  const auto has_int8_tokens = [](const char* inputs, const char* more = "") {
    const std::string text =
        fmt::format(R"({{"quantization_config":{{"quant_method":"compressed-tensors",
        "format":"int-quantized","config_groups":{{"a":{{"input_activations":{}}}{}}}}}}})",
                    inputs,
                    more);
    return read_config(text.c_str()).has_int8_tokens;
  };
  const char* dynamic = R"({"num_bits":8,"type":"int","strategy":"token","dynamic":true})";
  EXPECT_TRUE(has_int8_tokens(dynamic));
  EXPECT_FALSE(has_int8_tokens("null"));
  EXPECT_FALSE(has_int8_tokens(dynamic, R"(,"b":{"weights":{"num_bits":8}})"));
  EXPECT_FALSE(has_int8_tokens(R"({"num_bits":4,"strategy":"token","dynamic":true})"));
  EXPECT_FALSE(has_int8_tokens(R"({"type":"float","strategy":"token","dynamic":true})"));
  EXPECT_FALSE(has_int8_tokens(R"({"strategy":"tensor","dynamic":true})"));
  EXPECT_FALSE(has_int8_tokens(R"({"strategy":"token","dynamic":false})"));
  EXPECT_FALSE(has_int8_tokens(R"({"strategy":"token","dynamic":true,"symmetric":false})"));
}

TEST(QuantizationConfig, finds_activations_with_a_scale_in_the_checkpoint) {
  const auto has_static_int8 = [](const std::string& groups) {
    const std::string text =
        R"({"quantization_config":{"quant_method":"compressed-tensors","config_groups":{)" +
        groups + "}}}";
    return read_config(text.c_str()).has_static_int8;
  };
  const auto group = [](const std::string& name, const std::string& inputs) {
    return fmt::format(R"("{}":{{"input_activations":{{{}}}}})", name, inputs);
  };
  const std::string fixed = R"("num_bits":8,"type":"int","strategy":"tensor","dynamic":false)";
  EXPECT_TRUE(has_static_int8(group("a", fixed)));
  EXPECT_TRUE(has_static_int8(group("a", R"("strategy":"tensor")")));
  EXPECT_FALSE(has_static_int8(""));
  EXPECT_FALSE(has_static_int8(group("a", fixed) + "," + group("b", R"("strategy":"token")")));
  EXPECT_FALSE(has_static_int8(group("a", R"("strategy":"tensor","dynamic":true)")));
  EXPECT_FALSE(has_static_int8(group("a", R"("strategy":"tensor","type":"float")")));
  EXPECT_FALSE(has_static_int8(group("a", R"("strategy":"tensor","symmetric":false)")));
}

TEST(QuantizationConfig, finds_float8_weights_whose_activations_stay_as_they_are) {
  const auto keeps_activations = [](const char* weights, const char* inputs) {
    const std::string text =
        fmt::format(R"({{"quantization_config":{{"quant_method":"compressed-tensors",
        "format":"float-quantized","config_groups":{{"a":{{"weights":{},"input_activations":{}}}}}}}}})",
                    weights,
                    inputs);
    return read_config(text.c_str()).keeps_activations;
  };
  const char* float8 = R"({"num_bits":8,"type":"float","strategy":"tensor","dynamic":true})";
  const char* int8 = R"({"num_bits":8,"type":"int","strategy":"token","dynamic":true})";
  EXPECT_FALSE(keeps_activations(float8, float8));
  EXPECT_TRUE(keeps_activations(float8, "null"));
  EXPECT_TRUE(keeps_activations(float8, int8));
  EXPECT_FALSE(keeps_activations(int8, "null"));
  EXPECT_FALSE(read_config(R"({"quantization_config":{"quant_method":"fp8"}})").keeps_activations);
}

TEST(QuantizationConfig, names_what_it_cannot_read) {
  const auto message = [](const char* text) { return message_of([&] { read_config(text); }); };
  for (const auto& [text, wanted] : std::vector<std::pair<const char*, const char*>>{
           {R"({"quantization_config":{"quant_method":"exl2"}})", "'exl2' is not supported"},
           {R"({"quantization_config":{"quant_method":"gptq","bits":3}})", "is 3; supported: 4, 8"},
           {R"({"quantization_config":{"quant_method":"gptq"}})", "bits"},
           {R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":0}})", "is 0"},
           {R"({"quantization_config":{"quant_method":"gptq","bits":4,
                "checkpoint_format":"marlin"}})",
            "'marlin' is not supported"},
           {R"({"quantization_config":{"quant_method":"awq","bits":8}})", "is 8; supported: 4"},
           {R"({"quantization_config":{"quant_method":"awq","bits":4,"version":"gemv"}})",
            "'gemv' is not supported"}}) {
    EXPECT_NE(message(text).find(wanted), std::string::npos) << message(text);
  }
}

}  // namespace
}  // namespace reprise::weights
