#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "tests/support/weights/gguf_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights::gguf {
namespace {

GgufBytes bert_file() {
  GgufBytes file;
  file.string("general.architecture", "bert")
      .integer("bert.block_count", 1)
      .integer("bert.context_length", 6)
      .integer("bert.embedding_length", 8)
      .integer("bert.feed_forward_length", 16)
      .integer("bert.attention.head_count", 2)
      .real("bert.attention.layer_norm_epsilon", 1e-12F)
      .tensor("token_embd.weight", 0, {4, 8}, bytes_of(counting(32, 0)));
  return file;
}
GgufBytes with_types(GgufBytes file, const std::vector<uint64_t>& shape) {
  size_t count = 1;
  for (const uint64_t extent : shape) count *= extent;
  return file.tensor("token_types.weight", 0, shape, bytes_of(counting(count, 50)));
}

GgufBytes with_tokens(GgufBytes file,
                      const std::vector<std::string>& tokens,
                      const std::vector<int32_t>& types) {
  return file.string("tokenizer.ggml.model", "bert")
      .strings("tokenizer.ggml.tokens", tokens)
      .numbers<int32_t>("tokenizer.ggml.token_type", 5, types);
}

class GgufBert : public testing::Test {
 protected:
  std::shared_ptr<const GgufModel> open(const GgufBytes& file) {
    return GgufModel::open(directory_.write("model.gguf", file.bytes()));
  }
  std::string code_of_config(const GgufBytes& file) {
    return code_of([&] { static_cast<void>(open(file)->config()); });
  }
  Json tokenizer_of(const GgufBytes& file) {
    return parse_json(open(file)->tokenizer_json(), "tokenizer");
  }
  TempDirectory directory_;
};

TEST_F(GgufBert, is_an_encoder_with_learned_positions) {
  const ModelConfig config = open(with_types(bert_file(), {2, 8}))->config().config;
  EXPECT_EQ(config.architecture, Architecture::bert);
  EXPECT_TRUE(config.is_encoder);
  EXPECT_EQ(config.num_token_types, 2);
  EXPECT_EQ(config.max_position_embeddings, 6);
  EXPECT_EQ(config.activation, Activation::gelu);
  // Programs that quantise files leave out an extent of 1.
  EXPECT_EQ(open(with_types(bert_file(), {8}))->config().config.num_token_types, 1);
  EXPECT_EQ(code_of_config(bert_file()), "E_CONFIG") << "DistilBERT";
  GgufBytes rotated = with_types(bert_file(), {2, 8});
  EXPECT_EQ(code_of_config(rotated.real("bert.rope.freq_base", 1000)), "E_CONFIG");
}

TEST_F(GgufBert, alone_has_tokens_that_see_later_ones) {
  GgufBytes causal = with_types(bert_file(), {2, 8});
  EXPECT_EQ(code_of_config(causal.boolean("bert.attention.causal", true)), "E_CONFIG");
  GgufBytes decoder;
  decoder.string("general.architecture", "qwen2")
      .boolean("qwen2.attention.causal", false)
      .tensor("token_embd.weight", 0, {4, 8}, bytes_of(counting(32, 0)));
  EXPECT_NE(message_of([&] { static_cast<void>(open(decoder)->config()); }).find("causal"),
            std::string::npos);
}

TEST_F(GgufBert, has_the_names_of_its_class) {
  GgufBytes file = with_types(bert_file(), {8});
  file.tensor("token_embd_norm.bias", 0, {8}, bytes_of(counting(8, 1)))
      .tensor("position_embd.weight", 0, {6, 8}, bytes_of(counting(48, 2)))
      .tensor("blk.0.attn_output_norm.weight", 0, {8}, bytes_of(counting(8, 3)))
      .tensor("blk.0.layer_output_norm.weight", 0, {8}, bytes_of(counting(8, 4)))
      .tensor("blk.0.attn_q.bias", 0, {8}, bytes_of(counting(8, 5)))
      .tensor("blk.0.ffn_up.bias", 0, {16}, bytes_of(counting(16, 6)));
  const auto model = open(file);
  const GgufWeights weights(model, model->config().config);
  const auto read = [&](std::string_view name, size_t count) {
    Floats values(count);
    weights.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    return values;
  };
  EXPECT_EQ(read("embeddings.LayerNorm.bias", 8), counting(8, 1));
  EXPECT_EQ(read("embeddings.position_embeddings.weight", 48), counting(48, 2));
  EXPECT_EQ(read("embeddings.token_type_embeddings.weight", 8), counting(8, 50));
  EXPECT_EQ(read("encoder.layer.0.attention.output.LayerNorm.weight", 8), counting(8, 3));
  EXPECT_EQ(read("encoder.layer.0.output.LayerNorm.weight", 8), counting(8, 4));
  EXPECT_EQ(read("encoder.layer.0.attention.self.query.bias", 8), counting(8, 5));
  EXPECT_EQ(read("encoder.layer.0.intermediate.dense.bias", 16), counting(16, 6));
  for (const char* unknown : {"cls.output.weight", "dense_2.weight", "output_norm.weight"}) {
    GgufBytes other = with_types(bert_file(), {2, 8});
    const auto wrong = open(other.tensor(unknown, 0, {8}, bytes_of(counting(8, 0))));
    EXPECT_EQ(code_of([&] { GgufWeights(wrong, wrong->config().config); }), "E_UNKNOWN") << unknown;
  }
}

TEST_F(GgufBert, says_how_vectors_are_made) {
  const auto pooling_of = [&](std::optional<uint32_t> type) {
    GgufBytes file = bert_file();
    if (type) file.integer("bert.pooling_type", *type);
    return open(file)->pooling_config();
  };
  EXPECT_EQ(pooling_of({}), std::nullopt);
  EXPECT_EQ(pooling_of(0), std::nullopt);
  EXPECT_EQ(pooling_of(1), (PoolingConfig{.type = PoolingType::mean}));
  EXPECT_EQ(pooling_of(2), (PoolingConfig{.type = PoolingType::cls}));
  EXPECT_EQ(pooling_of(3), (PoolingConfig{.type = PoolingType::last}));
  EXPECT_EQ(code_of([&] { static_cast<void>(pooling_of(4)); }), "E_CONFIG");
}

TEST_F(GgufBert, has_word_pieces_with_and_without_the_mark_of_a_word) {
  const GgufBytes file =
      with_tokens(bert_file(),
                  {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581ab", "c", "[x]", "\u2581w"},
                  {3, 3, 3, 3, 1, 1, 1, 4});
  const Json tokenizer = tokenizer_of(file);
  const Json& pieces = tokenizer["model"]["vocab"];
  EXPECT_EQ(pieces["ab"], 4);
  EXPECT_EQ(pieces["##c"], 5);
  EXPECT_EQ(pieces["[x]"], 6) << "as older converters leave it";
  EXPECT_EQ(pieces["[CLS]"], 2);
  EXPECT_EQ(tokenizer["model"]["unk_token"], "[UNK]");
  ASSERT_EQ(tokenizer["added_tokens"].size(), 5U);
  EXPECT_EQ(tokenizer["added_tokens"][4]["content"], "w");
  EXPECT_FALSE(pieces.contains("w")) << "an added token is not a piece of words";
  const Json& ends = tokenizer["post_processor"]["special_tokens"];
  EXPECT_EQ(ends["[CLS]"]["ids"], Json::array({2}));
  EXPECT_EQ(ends["[SEP]"]["ids"], Json::array({3}));
  EXPECT_EQ(tokenizer["normalizer"]["lowercase"], true);
  GgufBytes named = file;
  named.integer("tokenizer.ggml.seperator_token_id", 0);
  EXPECT_EQ(tokenizer_of(named)["post_processor"]["single"][2]["SpecialToken"]["id"], "[PAD]");
  const GgufBytes headless = with_tokens(bert_file(), {"[UNK]", "a"}, {3, 1});
  EXPECT_EQ(code_of([&] { tokenizer_of(headless); }), "E_TOKENIZER");
}

TEST_F(GgufBert, keeps_capital_letters_if_a_piece_has_one_or_the_file_says_so) {
  const auto lowers = [&](const std::string& piece, std::optional<bool> says) {
    GgufBytes file =
        with_tokens(bert_file(), {"[UNK]", "[CLS]", "[SEP]", piece, "[A]"}, {3, 3, 3, 1, 1});
    if (says) file.boolean("tokenizer.ggml.normalizer.lowercase", *says);
    return tokenizer_of(file)["normalizer"]["lowercase"].get<bool>();
  };
  EXPECT_TRUE(lowers("a", {}));
  EXPECT_FALSE(lowers("A", {}));
  EXPECT_FALSE(lowers("a", false));
  EXPECT_TRUE(lowers("A", true));
}

}  // namespace
}  // namespace reprise::weights::gguf
