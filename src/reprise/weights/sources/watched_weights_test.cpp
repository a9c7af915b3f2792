#include "reprise/weights/sources/watched_weights.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/dummy_weights.h"

namespace reprise::weights {
namespace {

TEST(WatchedWeights, reads_what_its_source_reads_and_counts_the_bytes) {
  const ModelConfig config =
      parse_model_config(R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,
                             "intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,
                             "num_key_value_heads":2,"vocab_size":1000,
                             "max_position_embeddings":128,"torch_dtype":"bfloat16"})",
                         "config.json")
          .config;
  const DummyWeights plain(config, 7);
  std::vector<std::pair<uint64_t, uint64_t>> told;
  const WatchedWeights watched(
      std::make_unique<DummyWeights>(config, 7),
      [&told](uint64_t done, uint64_t total) { told.emplace_back(done, total); });
  EXPECT_EQ(watched.names(), plain.names());
  EXPECT_EQ(watched.description(), plain.description());
  uint64_t bytes = 0;
  for (const std::string_view name : plain.names()) {
    const TensorSpec& spec = *watched.find(name);
    EXPECT_EQ(spec, *plain.find(name));
    std::vector<std::byte> expected(size_bytes(spec) / dtype_bytes(spec.dtype) * sizeof(float));
    std::vector<std::byte> got(expected.size());
    plain.read(name, DType::f32, expected);
    watched.read(name, DType::f32, got);
    EXPECT_EQ(got, expected);
    bytes += size_bytes(spec);
    EXPECT_EQ(told.back().first, bytes) << "as stored, whatever it is converted to";
  }
  EXPECT_EQ(told.size(), plain.names().size());
  for (const auto& [done, total] : told) EXPECT_EQ(total, bytes);
}

TEST(WatchedWeights, counts_the_parts_of_a_tensor_as_the_whole) {
  const ModelConfig config =
      parse_model_config(R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,
                             "intermediate_size":96,"num_hidden_layers":1,"num_attention_heads":4,
                             "num_key_value_heads":2,"vocab_size":1000,
                             "max_position_embeddings":128,"torch_dtype":"bfloat16"})",
                         "config.json")
          .config;
  constexpr const char* kName = "model.embed_tokens.weight";
  const DummyWeights plain(config, 7);
  std::vector<std::byte> expected(size_t{1000} * 64 * 2);
  plain.read(kName, DType::bf16, expected);
  uint64_t done = 0;
  const WatchedWeights watched(std::make_unique<DummyWeights>(config, 7),
                               [&done](uint64_t so_far, uint64_t) { done = so_far; });
  ASSERT_TRUE(watched.reads_rows(kName));
  std::vector<std::byte> got(expected.size());
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 37}, {500, 500}, {37, 463}}) {
    watched.read_rows(
        kName,
        {.first = first, .count = count},
        DType::bf16,
        std::span(got).subspan(static_cast<size_t>(first) * 128, static_cast<size_t>(count) * 128));
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(done, expected.size());
}

}  // namespace
}  // namespace reprise::weights
