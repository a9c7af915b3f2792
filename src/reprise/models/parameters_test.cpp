#include "reprise/models/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/int8_panels.h"
#include "reprise/tensor/op.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "reprise/weights/sources/quantizing_weights.h"

namespace reprise::models {
namespace {

class NoOps final : public OpExecutor {
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override {}
};

// Some tensors are read in several parts, others are smaller than a part.
weights::ModelConfig config() {
  return weights::parse_model_config(
             R"({"architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":1200,
                 "num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,
                 "vocab_size":3008,"max_position_embeddings":128,"torch_dtype":"bfloat16"})",
             "config.json")
      .config;
}

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kGate = "model.layers.0.mlp.gate_proj.weight";
constexpr std::string_view kUp = "model.layers.0.mlp.up_proj.weight";

// A source in which all elements of a tensor are the same number.
class Numbers final : public weights::WeightSource {
 public:
  explicit Numbers(std::map<std::string, float, std::less<>> numbers)
      : numbers_(std::move(numbers)) {}

  [[nodiscard]] const weights::TensorSpec* find(std::string_view name) const override {
    return numbers_.contains(name) ? &spec_ : nullptr;
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return {}; }
  [[nodiscard]] std::string description() const override { return "numbers"; }
  void read(std::string_view name, DType, std::span<std::byte> dst) const override {
    std::memcpy(dst.data(), &numbers_.find(name)->second, dst.size());
  }

 private:
  std::map<std::string, float, std::less<>> numbers_;
  weights::TensorSpec spec_ = {DType::f32, {1}};
};

class ParametersTest : public testing::Test {
 protected:
  Parameters parameters(const weights::WeightSource& source,
                        WeightFamilies families = WeightFamilies::all()) {
    return {source, DType::bf16, *device_, *stream_, executor_, families};
  }
  static std::vector<uint16_t> stored(const weights::WeightSource& source,
                                      std::initializer_list<std::string_view> names) {
    std::vector<uint16_t> all;
    for (const std::string_view name : names) {
      std::vector<uint16_t> elements(size_bytes(*source.find(name)) / sizeof(uint16_t));
      source.read(name, DType::bf16, std::as_writable_bytes(std::span(elements)));
      all.insert(all.end(), elements.begin(), elements.end());
    }
    return all;
  }

  std::unique_ptr<device::Device> device_ =
      device::create_cpu_device({.num_threads = 3, .allow_oversubscription = true});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  NoOps executor_;
};

TEST_F(ParametersTest, put_every_element_of_a_stack_into_panels) {
  const weights::DummyWeights source(config(), 3);
  Parameters loaded = parameters(source);
  const std::array<std::string_view, 2> names = {kGate, kUp};
  const Tensor weight = loaded.load_projection(names);
  ASSERT_EQ(weight.layout(), column_panels_layout());
  const std::vector<uint16_t> want = stored(source, {kGate, kUp});
  const auto* got = static_cast<const uint16_t*>(weight.data());
  for (int64_t column = 0; column < weight.size(0); ++column) {
    for (int64_t i = 0; i < 256; ++i) {
      ASSERT_EQ(got[column_panel_offset(column, i, 256)],
                want[static_cast<size_t>(column * 256 + i)])
          << column << ", " << i;
    }
  }
}

TEST_F(ParametersTest, keep_a_table_row_major_and_packed_blocks_as_the_source_has_them) {
  const weights::DummyWeights source(config(), 3);
  Parameters loaded = parameters(source);
  const Tensor table = loaded.load_table(kEmbedding);
  EXPECT_EQ(table.dtype(), DType::bf16);
  const std::vector<uint16_t> want = stored(source, {kEmbedding});
  EXPECT_EQ(std::memcmp(table.data(), want.data(), want.size() * sizeof(uint16_t)), 0);

  const weights::QuantizingWeights quantizing(std::make_unique<weights::DummyWeights>(config(), 3),
                                              weights::LoadQuantization::q8_0);
  Parameters packed = parameters(quantizing);
  const Tensor blocks = packed.load_table(kEmbedding);
  ASSERT_EQ(blocks.layout().family, WeightFamily::block_panels);
  std::vector<std::byte> panels(static_cast<size_t>(panel_bytes(PanelFormat::q8_0, 3008, 256)));
  quantizing.read_panels(kEmbedding, panels);
  EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(blocks.data()) + kPanelHeaderBytes,
                        panels.data(),
                        panels.size()),
            0);
}

TEST_F(ParametersTest, stack_int8_rows_one_below_the_other) {
  weights::ModelConfig whole_panels = config();
  whole_panels.intermediate_size = 1216;
  const weights::QuantizingWeights source(std::make_unique<weights::DummyWeights>(whole_panels, 3),
                                          weights::LoadQuantization::int8);
  Parameters loaded = parameters(source);
  const std::array<std::string_view, 2> names = {kGate, kUp};
  const Tensor weight = loaded.load_projection(names);
  ASSERT_EQ(weight.layout(), layout_of(PanelFormat::int8_rows, 256));
  const int64_t rows = source.find(kGate)->shape[0];
  EXPECT_EQ(weight.shape(), Shape({2 * rows, 256}));
  const auto bytes = static_cast<size_t>(panel_bytes(PanelFormat::int8_rows, rows, 256));
  std::vector<std::byte> panels(bytes);
  for (const size_t i : {0UL, 1UL}) {
    source.read_panels(names[i], panels);
    EXPECT_EQ(
        std::memcmp(static_cast<const std::byte*>(weight.data()) + i * bytes, panels.data(), bytes),
        0)
        << names[i];
  }
}

TEST_F(ParametersTest, keep_only_the_layouts_that_the_device_takes) {
  using enum WeightFamily;
  using weights::LoadQuantization;
  const std::array<std::string_view, 2> names = {kGate, kUp};
  weights::ModelConfig whole_panels = config();
  whole_panels.intermediate_size = 1216;
  const auto family = [&](std::optional<LoadQuantization> method, WeightFamilies families) {
    std::unique_ptr<weights::WeightSource> source =
        std::make_unique<weights::DummyWeights>(whole_panels, 3);
    if (method) {
      source = std::make_unique<weights::QuantizingWeights>(std::move(source), *method);
    }
    return parameters(*source, families).load_projection(names).layout().family;
  };
  EXPECT_EQ(family(LoadQuantization::q8_0, {block_panels}), block_panels);
  EXPECT_EQ(family(LoadQuantization::int8, {block_panels}), rows);
  EXPECT_EQ(family(LoadQuantization::int8, {block_panels, int8_panels}), int8_panels);
  EXPECT_EQ(family(LoadQuantization::q8_0, {column_panels}), column_panels);
  EXPECT_EQ(family(std::nullopt, {block_panels}), rows);
  EXPECT_EQ(family(std::nullopt, {column_panels}), column_panels);
}

TEST_F(ParametersTest, load_the_largest_of_scales_and_load_it_again) {
  const std::array<std::string_view, 2> names = {"a", "b"};
  const Numbers source({{"a", 0.25F}, {"b", 0.5F}});
  Parameters loaded = parameters(source);
  const Tensor scale = loaded.load_scale(names);
  ASSERT_EQ(scale.type(), (TensorType{DType::f32, {1}}));
  const auto* number = static_cast<const float*>(scale.data());
  EXPECT_EQ(*number, 0.5F);
  for (const float wrong : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW((void)parameters(Numbers({{"a", 1.0F}, {"b", wrong}})).load_scale(names),
                 FileError)
        << wrong;
  }
  EXPECT_THROW((void)parameters(Numbers({{"a", 1.0F}})).load_scale(names), FileError);
  loaded.finish_loading();
  loaded.reload(Numbers({{"a", 2.0F}, {"b", 0.5F}}));
  EXPECT_EQ(*number, 2.0F);
}

TEST_F(ParametersTest, are_the_same_after_loading_them_again) {
  const weights::DummyWeights source(config(), 3);
  Parameters loaded = parameters(source);
  const Tensor weight = loaded.load_projection(kEmbedding);
  const Tensor transposed = loaded.load_projection(kGate, {.is_transposed = true});
  std::vector<std::vector<std::byte>> before;
  for (const Tensor& tensor : {weight, transposed}) {
    auto* bytes = static_cast<std::byte*>(tensor.data());
    before.emplace_back(bytes, bytes + tensor.type().bytes());
    std::fill_n(bytes, tensor.type().bytes(), std::byte{0xAA});
  }
  loaded.finish_loading();
  loaded.reload(source);
  EXPECT_EQ(std::memcmp(weight.data(), before[0].data(), before[0].size()), 0);
  EXPECT_EQ(std::memcmp(transposed.data(), before[1].data(), before[1].size()), 0);
  weights::ModelConfig other = config();
  other.intermediate_size = 1216;
  EXPECT_THROW(loaded.reload(weights::DummyWeights(other, 3)), FileError);
}

}  // namespace
}  // namespace reprise::models
