#include "reprise/weights/codecs/quantized_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/tensor/int8_panels.h"
#include "reprise/tensor/packed_weight.h"
#include "reprise/weights/codecs/bitsandbytes_matrix.h"
#include "reprise/weights/codecs/nvfp4_matrix.h"
#include "reprise/weights/codecs/packed_matrix.h"
#include "reprise/weights/codecs/scaled_matrix.h"
#include "reprise/weights/files/safetensors.h"
#include "tests/support/source_dir.h"
#include "tests/support/weights/memory_weights.h"

// The expected values are those of compressed-tensors, bitsandbytes and PyTorch
// (tools/make_quantized_goldens.py, tools/make_nvfp4_goldens.py).
namespace reprise::weights {
namespace {

QuantizationConfig blocks_of(int64_t rows, int64_t columns) {
  return {.block_rows = rows, .block_columns = columns};
}

MatrixMap find_matrices(const WeightSource& source, const QuantizationConfig& config) {
  MatrixMap matrices = find_scaled_matrices(source, config);
  matrices.merge(find_packed_matrices(source));
  matrices.merge(find_bitsandbytes_matrices(source));
  matrices.merge(find_nvfp4_matrices(source));
  return matrices;
}

// The tensors of one case of a golden file: a case of NVFP4 has a file of its own.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(InputFile::open(std::string(source_dir()) +
                              (name.starts_with("nvfp4/")
                                   ? "/tests/goldens/quantized/nvfp4.safetensors"
                                   : "/tests/goldens/quantized/matrices.safetensors"))) {
    const std::string prefix = name.substr(name.find('/') + 1) + "/";
    for (const TensorEntry& tensor : file_.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      std::vector<std::byte> bytes(tensor.size_bytes());
      file_.read(tensor, 0, bytes);
      const std::string own = tensor.name.substr(prefix.size());
      if (own == "values") {
        values_.resize(bytes.size() / sizeof(float));
        std::memcpy(values_.data(), bytes.data(), bytes.size());
      } else {
        stored_.add(own, tensor.spec.dtype, tensor.spec.shape, bytes);
      }
    }
    EXPECT_FALSE(values_.empty()) << name;
  }

  MemoryWeights& stored() { return stored_; }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }

  [[nodiscard]] std::unique_ptr<QuantizedMatrices> open(const QuantizationConfig& config) const {
    auto source = std::make_unique<MemoryWeights>(stored_);
    MatrixMap matrices = find_matrices(*source, config);
    return std::make_unique<QuantizedMatrices>(std::move(source), std::move(matrices));
  }

 private:
  SafetensorsFile file_;
  MemoryWeights stored_;
  std::vector<float> values_;
};

struct Case {
  const char* name;
  std::optional<PanelFormat> panels = std::nullopt;
  QuantizationConfig config = {};
};

const Case kCases[] = {
    {"fp8_tensor"},
    {"fp8_channel"},
    {"fp8_block", std::nullopt, blocks_of(16, 128)},
    {"fp8_e5m2"},
    {"float_quantized"},
    {"int8", PanelFormat::int8_g128},
    {"int8_zeros"},
    {"int4_g32", PanelFormat::int4_g32},
    {"int4_g128", PanelFormat::int4_g128},
    {"int4_zeros", PanelFormat::int4_g128},
    {"int4_order"},
    {"int4_channel", PanelFormat::int4_g128},
    {"int8_packed", PanelFormat::int8_g128},
    {"nf4"},
    {"nf4_nested"},
    {"fp4"},
    {"bnb_int8", PanelFormat::int8_g128},
    {"nvfp4/panels", PanelFormat::nvfp4},
    {"nvfp4/panels_modelopt", PanelFormat::nvfp4},
    {"nvfp4/rows"},
    {"nvfp4/rows_modelopt"},
};

TEST(QuantizedMatrix, has_the_values_of_the_library_that_defines_the_format) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const Golden golden(test.name);
    const auto weights = golden.open(test.config);
    const TensorSpec* spec = weights->find("m.weight");
    ASSERT_NE(spec, nullptr);
    ASSERT_EQ(spec->dtype, DType::f32);
    std::vector<float> values(golden.values().size());
    ASSERT_EQ(static_cast<size_t>(spec->shape[0] * spec->shape[1]), values.size());
    weights->read("m.weight", DType::f32, std::as_writable_bytes(std::span(values)));
    for (size_t i = 0; i < values.size(); ++i) {
      // The libraries may multiply in another order, so the last bits may differ.
      ASSERT_NEAR(values[i], golden.values()[i], 3e-7 * std::abs(golden.values()[i])) << i;
    }
    EXPECT_EQ(weights->names(), std::vector<std::string_view>{"m.weight"});
    EXPECT_GT(weights->stored_bytes("m.weight"), values.size() / 2);
    EXPECT_EQ(weights->matrices_without_panels(), test.panels ? "" : "1 matrix");
  }
}

TEST(QuantizedMatrix, stays_packed_with_the_same_values_where_there_is_a_layout) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const Golden golden(test.name);
    const auto weights = golden.open(test.config);
    ASSERT_EQ(weights->panel_format("m.weight"), test.panels);
    if (!test.panels) continue;
    const std::vector<int64_t>& shape = weights->find("m.weight")->shape;
    const PanelPart part{.format = *test.panels, .columns = shape[0]};
    std::vector<std::byte> packed(
        static_cast<size_t>(packed_weight_bytes(std::span(&part, 1), shape[1])));
    const PanelHeader header = make_panel_header(std::span(&part, 1), shape[1]);
    std::memcpy(packed.data(), &header, sizeof header);
    weights->read_panels("m.weight", std::span(packed).subspan(kPanelHeaderBytes));
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t k = 0; k < shape[1]; ++k) {
        const double got = panel_element(reinterpret_cast<uint8_t*>(packed.data()), n, k);
        const float want = golden.values()[static_cast<size_t>(n * shape[1] + k)];
        ASSERT_NEAR(got, want, 3e-7 * std::abs(want)) << n << ", " << k;
      }
    }
  }
}

TEST(QuantizedMatrix, has_one_scale_per_row_where_activations_have_one_per_token) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kDepth = 128;
  std::vector<int8_t> codes(kRows * kDepth);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int8_t>(i * 37 % 256 - 128);
  std::vector<float> scales(kRows);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01F * static_cast<float>(i + 1);
  const auto open = [&](const char* name, bool has_int8_tokens) {
    auto stored = std::make_unique<MemoryWeights>();
    stored->add(std::string(name) + ".weight", DType::i8, {kRows, kDepth}, codes);
    stored->add(std::string(name) + ".weight_scale", DType::f32, {kRows, 1}, scales);
    MatrixMap matrices =
        find_scaled_matrices(*stored, QuantizationConfig{.has_int8_tokens = has_int8_tokens});
    return std::make_unique<QuantizedMatrices>(std::move(stored), std::move(matrices));
  };
  EXPECT_EQ(open("m", false)->panel_format("m.weight"), PanelFormat::int8_g128);
  EXPECT_EQ(open("l.experts.0", true)->panel_format("l.experts.0.weight"), PanelFormat::int8_g128);
  // Only projections that have a static scale use it.
  const auto open_static = [&](bool has_scale) {
    auto stored = std::make_unique<MemoryWeights>();
    stored->add("m.weight", DType::i8, {kRows, kDepth}, codes);
    stored->add("m.weight_scale", DType::f32, {kRows, 1}, scales);
    if (has_scale) stored->add("m.input_scale", DType::f32, {1}, std::vector<float>{0.5F});
    MatrixMap matrices = find_scaled_matrices(*stored, QuantizationConfig{.has_static_int8 = true});
    return QuantizedMatrices(std::move(stored), std::move(matrices)).panel_format("m.weight");
  };
  EXPECT_EQ(open_static(true), PanelFormat::int8_rows);
  EXPECT_EQ(open_static(false), PanelFormat::int8_g128);
  const auto weights = open("m", true);
  ASSERT_EQ(weights->panel_format("m.weight"), PanelFormat::int8_rows);
  std::vector<int8_t> panels(
      static_cast<size_t>(panel_bytes(PanelFormat::int8_rows, kRows, kDepth)));
  weights->read_panels("m.weight", std::as_writable_bytes(std::span(panels)));
  for (int64_t n = 0; n < kRows; ++n) {
    int32_t want_sum = 0;
    for (int64_t k = 0; k < kDepth; ++k) {
      const int8_t want = codes[static_cast<size_t>(n * kDepth + k)];
      ASSERT_EQ(panels[static_cast<size_t>(int8_panel_offset(n, k, kDepth))], want);
      want_sum += want;
    }
    float scale = 0;
    int32_t sum = 0;
    std::memcpy(&scale, panels.data() + int8_scale_offset(n, kDepth), sizeof scale);
    std::memcpy(&sum, panels.data() + int8_sum_offset(n, kDepth), sizeof sum);
    ASSERT_EQ(scale, scales[static_cast<size_t>(n)]);
    ASSERT_EQ(sum, want_sum);
  }
}

std::string error_of(const MemoryWeights& source, const QuantizationConfig& config = {}) {
  try {
    (void)find_matrices(source, config);
  } catch (const FileError& error) {
    return std::string(error.code());
  }
  return "";
}

TEST(QuantizedMatrix, refuses_a_scale_of_nvfp4_that_is_no_number) {
  for (const char* name : {"nvfp4/panels", "nvfp4/rows_modelopt"}) {
    Golden golden(name);
    const auto depth = golden.values().size() / 17;
    std::vector<uint8_t> scales(17 * depth / 16, 0x38);
    scales[20] = 0x7f;
    golden.stored().add(
        "m.weight_scale", DType::f8e4m3, {17, static_cast<int64_t>(depth) / 16}, scales);
    const auto weights = golden.open({});
    std::vector<float> values(golden.values().size());
    EXPECT_THROW(weights->read("m.weight", DType::f32, std::as_writable_bytes(std::span(values))),
                 FileError)
        << name;
  }
}

TEST(QuantizedMatrix, refuses_tensors_that_do_not_fit_together) {
  using Change = std::function<void(MemoryWeights&)>;
  struct Broken {
    const char* name;
    const char* code;
    Change change;
  };
  const std::vector<int32_t> words(17 * 64);
  const Broken cases[] = {
      {"fp8_tensor", "E_MISSING", [](auto& m) { m.remove("m.weight_scale"); }},
      {"fp8_channel",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_scale", DType::f32, {23}, std::vector<float>(23)); }},
      {"fp8_channel",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_scale", DType::f32, {24, 3}, std::vector<float>(72)); }},
      {"fp8_channel",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight", DType::f8e4m3, {24, 0}, std::vector<char>()); }},
      {"fp8_channel",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight", DType::f8e4m3, {4800}, std::vector<char>(4800)); }},
      {"int8",
       "E_DTYPE",
       [](auto& m) { m.add("m.weight_scale", DType::i32, {17, 1}, std::vector<int32_t>(17)); }},
      {"int8_zeros",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_zero_point", DType::i8, {16, 1}, std::vector<char>(16)); }},
      {"int8",
       "E_VALUE",
       [](auto& m) { m.add("m.weight_g_idx", DType::i32, {256}, std::vector<int32_t>(256)); }},
      {"int4_g32", "E_MISSING", [](auto& m) { m.remove("m.weight_scale"); }},
      {"int4_g32", "E_MISSING", [](auto& m) { m.remove("m.weight_shape"); }},
      {"int4_g32",
       "E_VALUE",
       [](auto& m) {
         m.add("m.weight_shape", DType::i64, {2}, std::vector<int64_t>{-17, int64_t{1} << 60});
       }},
      {"int4_g32",
       "E_SHAPE",
       [](auto& m) {
         m.add("m.weight_shape", DType::i64, {2}, std::vector<int64_t>{17, 1 << 30});
       }},
      {"int4_g32",
       "E_SHAPE",
       [&](auto& m) { m.add("m.weight_packed", DType::i32, {17, 24}, words); }},
      {"int4_g32",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_scale", DType::f32, {17, 7}, std::vector<float>(119)); }},
      {"int4_zeros",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_zero_point", DType::i32, {2, 2}, std::vector<int32_t>(4)); }},
      {"int4_order",
       "E_VALUE",
       [](auto& m) { m.add("m.weight_g_idx", DType::i32, {256}, std::vector<int32_t>(256, 8)); }},
      {"nvfp4/panels", "E_MISSING", [](auto& m) { m.remove("m.weight_scale"); }},
      {"nvfp4/panels_modelopt", "E_MISSING", [](auto& m) { m.remove("m.weight"); }},
      {"nvfp4/panels",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_scale", DType::f8e4m3, {17, 8}, std::vector<char>(136)); }},
      {"nvfp4/panels",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_packed", DType::u8, {17, 127}, std::vector<char>(2159)); }},
      {"nvfp4/panels_modelopt",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight_scale_2", DType::f32, {2}, std::vector<float>{1, 1}); }},
      {"nvfp4/panels",
       "E_VALUE",
       [](auto& m) { m.add("m.weight_global_scale", DType::f32, {1}, std::vector<float>{0}); }},
      {"nvfp4/panels_modelopt",
       "E_VALUE",
       [](auto& m) { m.add("m.weight_scale_2", DType::f32, {}, std::vector<float>{-1}); }},
      {"nvfp4/panels",
       "E_DUPLICATE",
       [](auto& m) { m.add("m.weight", DType::f32, {17, 256}, std::vector<float>(17 * 256)); }},
      {"int4_g32",
       "E_DUPLICATE",
       [](auto& m) { m.add("m.weight", DType::f32, {17, 256}, std::vector<float>(17 * 256)); }},
      {"nf4", "E_MISSING", [](auto& m) { m.remove("m.weight.absmax"); }},
      {"nf4",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight.quant_map", DType::f32, {8}, std::vector<float>(8)); }},
      {"nf4",
       "E_SHAPE",
       [](auto& m) { m.add("m.weight", DType::u8, {849, 1}, std::vector<char>(849)); }},
      {"nf4_nested", "E_MISSING", [](auto& m) { m.remove("m.weight.nested_absmax"); }},
      {"nf4",
       "E_CONFIG",
       [](auto& m) {
         const std::string text = R"({"shape": [17, -1], "blocksize": 64})";
         m.add("m.weight.quant_state.bitsandbytes__nf4",
               DType::u8,
               {static_cast<int64_t>(text.size())},
               std::vector<char>(text.begin(), text.end()));
       }},
      {"nf4",
       "E_CONFIG",
       [](auto& m) {
         m.add("m.weight.quant_state.bitsandbytes__nf4", DType::u8, {3}, std::vector<char>(3));
       }},
  };
  for (const Broken& test : cases) {
    Golden golden(test.name);
    ASSERT_EQ(error_of(golden.stored()), "") << test.name;
    test.change(golden.stored());
    EXPECT_EQ(error_of(golden.stored()), test.code) << test.name << " " << &test - cases;
  }
  Golden blocks("fp8_block");
  EXPECT_EQ(error_of(blocks.stored(), blocks_of(16, 128)), "");
  EXPECT_EQ(error_of(blocks.stored(), blocks_of(8, 128)), "E_SHAPE");
}

}  // namespace
}  // namespace reprise::weights
