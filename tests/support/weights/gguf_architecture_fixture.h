#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "tests/support/weights/gguf_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights::gguf {

using Keys = std::vector<std::pair<std::string, uint32_t>>;

/// A file with two heads of four elements and one layer. `keys` are those of the architecture.
inline GgufBytes file_of(const std::string& architecture,
                         const Keys& keys = {},
                         int64_t num_layers = 1) {
  const std::string prefix = architecture + ".";
  GgufBytes file;
  file.string("general.architecture", architecture)
      .integer(prefix + "block_count", num_layers)
      .integer(prefix + "context_length", 64)
      .integer(prefix + "embedding_length", 8)
      .integer(prefix + "feed_forward_length", 16)
      .integer(prefix + "attention.head_count", 2)
      .real(prefix + "attention.layer_norm_rms_epsilon", 1e-5F)
      .real(prefix + "attention.layer_norm_epsilon", 1e-5F)
      .tensor("token_embd.weight", 0, {4, 8}, bytes_of(counting(32, 0)));
  for (const auto& [key, value] : keys) file.integer(prefix + key, value);
  return file;
}

inline Keys operator+(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Keys of latent attention and of experts. The only layer of file_of() has no experts.
inline const Keys kDeepSeekKeys = {{"expert_count", 4},
                                   {"expert_used_count", 2},
                                   {"expert_feed_forward_length", 6},
                                   {"expert_shared_count", 1},
                                   {"leading_dense_block_count", 1},
                                   {"attention.kv_lora_rank", 4},
                                   {"attention.key_length", 8},
                                   {"attention.value_length", 4},
                                   {"attention.key_length_mla", 7},
                                   {"attention.value_length_mla", 2},
                                   {"rope.dimension_count", 4}};
/// Keys of the index with which sparse attention chooses positions.
inline const Keys kIndexKeys = {{"attention.q_lora_rank", 3},
                                {"attention.indexer.head_count", 2},
                                {"attention.indexer.key_length", 6},
                                {"attention.indexer.top_k", 5}};

class GgufArchitectures : public testing::Test {
 protected:
  std::shared_ptr<const GgufModel> open(const GgufBytes& file) {
    return GgufModel::open(directory_.write("model.gguf", file.bytes()));
  }
  ModelConfig config_of(const GgufBytes& file) { return open(file)->config().config; }
  GgufWeights weights_of(const GgufBytes& file) {
    const auto model = open(file);
    return {model, model->config().config};
  }
  std::string code_of_weights(const GgufBytes& file) {
    return code_of([&] { static_cast<void>(weights_of(file)); });
  }
  Json pre_tokenizer_of(std::string_view name) {
    GgufBytes file = file_of("qwen2");
    file.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", name)
        .strings("tokenizer.ggml.tokens", {"a", "b", "ab"})
        .strings("tokenizer.ggml.merges", {"a b"});
    return parse_json(open(file)->tokenizer_json(), "tokenizer")["pre_tokenizer"];
  }
  std::string code_of_config(const GgufBytes& file) {
    return code_of([&] { config_of(file); });
  }
  static Floats read(const WeightSource& source, std::string_view name, size_t count) {
    Floats values(count);
    source.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    return values;
  }
  TempDirectory directory_;
};

}  // namespace reprise::weights::gguf
