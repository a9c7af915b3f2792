#include "reprise/weights/files/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/lm_head.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kTinyConfig = R"({
  "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 12,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10,
  "max_position_embeddings": 32, "dtype": "float32"})";

// A file whose tensors are f32 vectors: name -> values.
std::string file_of(const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, values] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"F32\",\"shape\":[" +
              std::to_string(values.size()) + "],\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  }
  return safetensors_bytes(header + "}", data);
}

std::string file_of(const WeightSource& source, std::string_view left_out = "") {
  std::string header = "{";
  std::string data;
  for (const std::string_view name : source.names()) {
    if (name == left_out) continue;
    const TensorSpec& spec = *source.find(name);
    std::vector<std::byte> bytes(size_bytes(spec));
    source.read(name, spec.dtype, bytes);
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":{},"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "",
                          name,
                          shape_text(spec.shape),
                          data.size(),
                          data.size() + bytes.size());
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return safetensors_bytes(header + "}", data);
}

class CheckpointTest : public ::testing::Test {
 protected:
  Checkpoint open() { return Checkpoint::open(ModelDirectory(directory_.path())); }
  std::string code() {
    return code_of([&] { (void)open(); });
  }
  void write_index(std::string_view weight_map) {
    directory_.write(
        "model.safetensors.index.json",
        fmt::format(R"({{"metadata":{{"total_size":8}},"weight_map":{}}})", weight_map));
  }

  TempDirectory directory_;
};

TEST_F(CheckpointTest, reads_a_single_file_in_the_stored_and_in_another_type) {
  directory_.write("model.safetensors", file_of({{"b", {1.5f, -2.0f}}, {"a", {3.0f}}}));
  const Checkpoint checkpoint = open();
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
  EXPECT_EQ(checkpoint.total_bytes(), 12u);
  EXPECT_TRUE(checkpoint.has("a"));
  EXPECT_FALSE(checkpoint.has("c"));
  EXPECT_THAT(read_f32(checkpoint, "b"), ElementsAre(1.5f, -2.0f));
  std::vector<uint16_t> halves(2);
  checkpoint.read("b", DType::bf16, std::as_writable_bytes(std::span(halves)));
  EXPECT_THAT(halves, ElementsAre(f32_to_bf16(1.5f), f32_to_bf16(-2.0f)));
  EXPECT_EQ(code_of([&] { checkpoint.read("c", DType::f32, {}); }), "E_MISSING");
}

TEST_F(CheckpointTest, converts_across_chunk_borders_and_from_several_threads) {
  std::vector<float> values(3 * 16384 + 7);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
  directory_.write("model.safetensors", file_of({{"x", {9.0f}}, {"big", values}}));
  const Checkpoint checkpoint = open();
  std::vector<std::vector<uint16_t>> read(3, std::vector<uint16_t>(values.size()));
  {
    std::vector<std::jthread> threads;
    for (auto& target : read) {
      threads.emplace_back(
          [&] { checkpoint.read("big", DType::f16, std::as_writable_bytes(std::span(target))); });
    }
  }
  for (const auto& target : read) {
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(target[i], f32_to_f16(values[i])) << i;
  }
}

TEST_F(CheckpointTest, F10_reports_a_file_that_shrinks_while_it_is_converted) {
  directory_.write("model.safetensors", file_of({{"big", std::vector<float>(40'000, 1.0f)}}));
  const Checkpoint checkpoint = open();
  fs::resize_file(directory_.path() / "model.safetensors", 100'000);
  std::vector<uint16_t> halves(40'000);
  EXPECT_EQ(code_of([&] {
              checkpoint.read("big", DType::f16, std::as_writable_bytes(std::span(halves)));
            }),
            "E_TRUNCATED");
}

// The expected bits are those of torch.tensor(values, dtype=torch.float64).to(dtype), torch 2.13.
TEST_F(CheckpointTest, f64_becomes_what_torch_makes_of_it) {
  const std::vector<double> values = {
      0.1, -1e-3, 1e300, -0.0, 1e-310, 65519.99, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40};
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * 8);
  directory_.write(
      "model.safetensors",
      safetensors_bytes(R"({"x":{"dtype":"F64","shape":[4,2],"data_offsets":[0,64]}})", data));
  const Checkpoint checkpoint = open();
  std::vector<uint16_t> bf16(8);
  checkpoint.read("x", DType::bf16, std::as_writable_bytes(std::span(bf16)));
  EXPECT_EQ(
      bf16,
      (std::vector<uint16_t>{0x3dcd, 0xba83, 0x7f80, 0x8000, 0x0000, 0x4780, 0x3f80, 0x3f80}));
  std::vector<uint16_t> f16(4);
  checkpoint.read_rows("x", {2, 2}, DType::f16, std::as_writable_bytes(std::span(f16)));
  EXPECT_EQ(f16, (std::vector<uint16_t>{0x0000, 0x7bff, 0x3c04, 0x3c00}));
}

TEST_F(CheckpointTest, refuses_to_read_integers_as_floats) {
  directory_.write(
      "model.safetensors",
      safetensors_bytes(R"({"i":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  const Checkpoint checkpoint = open();
  std::vector<std::byte> bytes(4);
  EXPECT_EQ(code_of([&] { checkpoint.read("i", DType::f32, bytes); }), "E_DTYPE");
}

TEST_F(CheckpointTest, reads_shards_through_the_index) {
  directory_.write("model-00001-of-00002.safetensors", file_of({{"a", {1.0f}}}));
  directory_.write("model-00002-of-00002.safetensors", file_of({{"b", {2.0f}}, {"c", {3.0f}}}));
  write_index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors",)"
              R"("c":"model-00002-of-00002.safetensors"})");
  const Checkpoint checkpoint = open();
  EXPECT_THAT(read_f32(checkpoint, "c"), ElementsAre(3.0f));
  EXPECT_THAT(checkpoint.warnings(), IsEmpty());
}

TEST_F(CheckpointTest, prefers_the_single_file_and_says_what_is_missing) {
  EXPECT_EQ(code(), "E_MISSING");
  directory_.write("pytorch_model.bin", "pickle");
  EXPECT_THAT(message_of([&] { (void)open(); }), HasSubstr("pickle"));
  write_index(R"({"a":"gone.safetensors"})");
  directory_.write("model.safetensors", file_of({{"a", {1.0f}}}));
  EXPECT_EQ(code(), "accepted");
  EXPECT_EQ(code_of([&] { (void)ModelDirectory(directory_.path() / "none"); }), "E_MISSING");
  EXPECT_EQ(code_of([&] { (void)ModelDirectory(directory_.path() / "model.safetensors"); }),
            "E_NOT_DIRECTORY");
}

TEST_F(CheckpointTest, F13_refuses_shard_names_that_are_not_plain) {
  for (const char* name : {"../../etc/passwd",
                           "/etc/passwd",
                           "..",
                           ".",
                           "",
                           "a/b.safetensors",
                           "..\\\\x",
                           "x\\u0000.safetensors"}) {
    write_index(fmt::format(R"({{"a":"{}"}})", name));
    EXPECT_EQ(code(), "E_PATH") << name;
  }
  write_index(fmt::format(R"({{"a":"{}"}})", std::string(256, 'x')));
  EXPECT_EQ(code(), "E_PATH");
}

TEST_F(CheckpointTest, F13_refuses_links_that_leave_the_directory) {
  const TempDirectory outside;
  const fs::path target = outside.write("real.safetensors", file_of({{"a", {1.0f}}}));
  fs::create_symlink(target, directory_.path() / "model.safetensors");
  EXPECT_EQ(code(), "E_PATH");
  fs::remove(directory_.path() / "model.safetensors");
  fs::create_symlink(target, directory_.path() / "shard.safetensors");
  write_index(R"({"a":"shard.safetensors"})");
  EXPECT_EQ(code(), "E_PATH");
}

TEST_F(CheckpointTest, follows_links_inside_the_directory_and_a_linked_directory) {
  directory_.write("real.bin", file_of({{"a", {1.0f}}}));
  fs::create_symlink("real.bin", directory_.path() / "model.safetensors");
  EXPECT_EQ(code(), "accepted");
  const TempDirectory elsewhere;
  fs::create_directory_symlink(directory_.path(), elsewhere.path() / "link");
  EXPECT_EQ(code_of([&] { (void)Checkpoint::open(ModelDirectory(elsewhere.path() / "link")); }),
            "accepted");
}

TEST_F(CheckpointTest, follows_the_hub_cache_layout_but_not_out_of_it) {
  const fs::path model = directory_.path() / "models--a--b";
  directory_.write("models--a--b/blobs/0123", file_of({{"a", {1.0f}}}));
  directory_.write("models--a--b/secret", file_of({{"a", {1.0f}}}));
  const fs::path snapshot = model / "snapshots" / "main";
  fs::create_directories(snapshot);
  const auto open_code = [&] {
    return code_of([&] { (void)Checkpoint::open(ModelDirectory(snapshot)); });
  };
  fs::create_symlink("../../blobs/0123", snapshot / "model.safetensors");
  EXPECT_EQ(open_code(), "accepted");
  fs::remove(snapshot / "model.safetensors");
  fs::create_symlink("../../secret", snapshot / "model.safetensors");
  EXPECT_EQ(open_code(), "E_PATH");
  fs::remove(snapshot / "model.safetensors");
  fs::create_symlink("../../blobs/none", snapshot / "model.safetensors");
  EXPECT_EQ(open_code(), "E_MISSING");
  // If the blobs folder itself were a link, files outside of the model's folder would become
  // readable.
  fs::rename(model / "blobs", model / "elsewhere");
  fs::create_directory_symlink("elsewhere", model / "blobs");
  fs::remove(snapshot / "model.safetensors");
  fs::create_symlink("../../blobs/0123", snapshot / "model.safetensors");
  EXPECT_EQ(open_code(), "E_PATH");
}

TEST_F(CheckpointTest, F14_refuses_an_index_that_the_shards_do_not_bear_out) {
  write_index(R"({"a":"one.safetensors"})");
  EXPECT_EQ(code(), "E_MISSING");
  directory_.write("one.safetensors", file_of({{"a", {1.0f}}}));
  directory_.write("two.safetensors", file_of({{"a", {1.0f}}, {"b", {1.0f}}}));
  write_index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_EQ(code(), "E_INDEX");
}

TEST_F(CheckpointTest, F14_refuses_an_index_that_is_malformed) {
  for (const char* index : {"",
                            "[]",
                            "{}",
                            R"({"weight_map":[]})",
                            R"({"weight_map":{"a":1}})",
                            R"({"weight_map":{"a":"x","a":"y"}})",
                            R"({"weight_map":)"}) {
    directory_.write("model.safetensors.index.json", index);
    EXPECT_EQ(code(), "E_INDEX") << index;
  }
  directory_.write("model.safetensors.index.json", std::string((8u << 20) + 1, ' '));
  EXPECT_EQ(code(), "E_TOO_LARGE");
}

TEST_F(CheckpointTest, warns_of_tensors_that_the_index_does_not_list) {
  directory_.write("one.safetensors", file_of({{"a", {1.0f}}, {"b", {1.0f}}}));
  write_index(R"({"a":"one.safetensors"})");
  EXPECT_EQ(open().warnings().size(), 1u);
}

TEST_F(CheckpointTest, warns_of_tensors_that_the_index_lists_and_no_shard_has) {
  directory_.write("one.safetensors", file_of({{"a", {1.0f}}}));
  write_index(R"({"a":"./one.safetensors","b":"one.safetensors"})");
  const Checkpoint checkpoint = open();
  EXPECT_THAT(checkpoint.warnings(), ElementsAre(HasSubstr("says that b is here, but it is not")));
  EXPECT_THAT(checkpoint.names(), ElementsAre("a"));
}

TEST_F(CheckpointTest, reads_shards_without_an_index_and_files_of_other_names) {
  directory_.write("model-00001-of-00002.safetensors", file_of({{"a", {1.0f}}}));
  EXPECT_EQ(code(), "E_MISSING") << "the second shard";
  directory_.write("model-00002-of-00002.safetensors", file_of({{"b", {2.0f}}}));
  directory_.write("adapter_model.safetensors", file_of({{"c", {3.0f}}}));
  directory_.write("consolidated.safetensors", file_of({{"d", {3.0f}}}));
  const Checkpoint checkpoint = open();
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
  EXPECT_THAT(checkpoint.warnings(), ElementsAre(HasSubstr("has neither")));
  fs::remove(directory_.path() / "model-00001-of-00002.safetensors");
  fs::rename(directory_.path() / "model-00002-of-00002.safetensors",
             directory_.path() / "model.fp16.safetensors");
  EXPECT_THAT(open().names(), ElementsAre("b"));
}

TEST_F(CheckpointTest, says_that_a_file_is_a_pointer_of_git_lfs) {
  directory_.write("model.safetensors",
                   "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 988097824\n");
  EXPECT_EQ(code(), "E_LFS_POINTER");
  EXPECT_THAT(message_of([&] { (void)open(); }), HasSubstr("git lfs pull"));
}

class VerifyWeights : public CheckpointTest {
 protected:
  ModelConfig config_ = parse_model_config(kTinyConfig, "config.json").config;
};

TEST_F(VerifyWeights, accepts_a_checkpoint_that_fits) {
  directory_.write("model.safetensors", file_of(DummyWeights(config_, 1)));
  EXPECT_THAT(verify_weights(config_, open()), IsEmpty());
}

TEST_F(VerifyWeights, F11_names_a_missing_tensor_whichever_it_is) {
  const DummyWeights whole(config_, 1);
  for (const std::string_view name : whole.names()) {
    directory_.write("model.safetensors", file_of(whole, name));
    const Checkpoint checkpoint = open();
    const std::string message = message_of([&] { (void)verify_weights(config_, checkpoint); });
    EXPECT_THAT(message, HasSubstr("E_MISSING"));
    EXPECT_THAT(message, HasSubstr(std::string(name)));
  }
}

TEST_F(VerifyWeights, F11_warns_of_extra_tensors) {
  ModelConfig one_layer = config_;
  one_layer.num_hidden_layers = 1;
  one_layer.layer_types.resize(1);
  directory_.write("model.safetensors", file_of(DummyWeights(config_, 1)));
  const std::vector<std::string> warnings = verify_weights(one_layer, open());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("9 tensors of the checkpoint are not used: "));
  EXPECT_THAT(warnings[0], HasSubstr("model.layers.1.input_layernorm.weight"));
  EXPECT_THAT(warnings[0], HasSubstr(" and 1 more"));
}

// A source that has one tensor more than another source.
class OneMore final : public WeightSource {
 public:
  OneMore(const WeightSource& source, std::string name) : source_(source), name_(std::move(name)) {}

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override {
    return name == name_ ? &spec_ : source_.find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override {
    std::vector<std::string_view> names = source_.names();
    names.push_back(name_);
    return names;
  }
  void read(std::string_view, DType, std::span<std::byte>) const override {}
  [[nodiscard]] std::string description() const override { return "one more"; }

 private:
  const WeightSource& source_;
  std::string name_;
  TensorSpec spec_{DType::f32, {1}};
};

TEST_F(VerifyWeights, ignores_stored_rotary_tables_and_a_tied_lm_head_of_the_right_shape_only) {
  const DummyWeights source(config_, 1);
  const OneMore with_table(source, "model.layers.0.self_attn.rotary_emb.inv_freq");
  EXPECT_THAT(verify_weights(config_, with_table), IsEmpty());
  config_.tie_word_embeddings = true;
  const DummyWeights tied(config_, 1);
  const OneMore with_wrong_head(tied, "lm_head.weight");
  EXPECT_EQ(code_of([&] { (void)verify_weights(config_, with_wrong_head); }), "E_SHAPE_MISMATCH");
}

TEST_F(VerifyWeights, F12_shows_both_shapes) {
  ModelConfig other = config_;
  other.intermediate_size = 16;
  directory_.write("model.safetensors", file_of(DummyWeights(other, 1)));
  const std::string message = message_of([&] { (void)verify_weights(config_, open()); });
  EXPECT_THAT(message, HasSubstr("E_SHAPE_MISMATCH"));
  EXPECT_THAT(message, HasSubstr("[16, 8]"));
  EXPECT_THAT(message, HasSubstr("[12, 8]"));
}

TEST_F(VerifyWeights, F16_refuses_a_vocabulary_that_differs_from_the_embedding) {
  directory_.write("model.safetensors", file_of(DummyWeights(config_, 1)));
  config_.vocab_size = 11;
  const std::string message = message_of([&] { (void)verify_weights(config_, open()); });
  EXPECT_THAT(message, HasSubstr("E_SHAPE_MISMATCH"));
  EXPECT_THAT(message, HasSubstr("model.embed_tokens.weight"));
}

TEST_F(VerifyWeights, lets_a_tied_lm_head_be_absent_or_present) {
  const DummyWeights with_head(config_, 1);
  config_.tie_word_embeddings = true;
  const DummyWeights without_head(config_, 1);
  ASSERT_TRUE(with_head.has("lm_head.weight"));
  ASSERT_FALSE(without_head.has("lm_head.weight"));
  EXPECT_THAT(verify_weights(config_, with_head), IsEmpty());
  EXPECT_THAT(verify_weights(config_, without_head), IsEmpty());
}

TEST_F(VerifyWeights, refuses_weights_that_are_not_floats) {
  std::string file = file_of(DummyWeights(config_, 1));
  for (size_t at = file.find("F32"); at != std::string::npos; at = file.find("F32", at)) {
    file.replace(at, 3, "I32");
  }
  directory_.write("model.safetensors", file);
  EXPECT_EQ(code_of([&] { (void)verify_weights(config_, open()); }), "E_DTYPE");
}

// The checkpoint decides whether logits come from the embedding.
TEST_F(VerifyWeights, uses_the_head_that_the_checkpoint_has) {
  const auto tied = [&](bool says_tied, const WeightSource& source) {
    config_.tie_word_embeddings = says_tied;
    std::vector<std::string> warnings;
    const bool result = uses_embedding_as_head(config_, source, warnings);
    EXPECT_EQ(warnings.size(), result == says_tied ? 0u : 1u);
    return result;
  };
  const DummyWeights with_head(config_, 1);
  config_.tie_word_embeddings = true;
  const DummyWeights without_head(config_, 1);
  EXPECT_FALSE(tied(false, with_head));
  EXPECT_FALSE(tied(true, with_head)) << "another head";
  EXPECT_TRUE(tied(true, without_head));
  EXPECT_TRUE(tied(false, without_head)) << "no head";
  // A head that is a copy of the embedding.
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const auto matrices = [&](const std::vector<float>& head) {
    std::string data;
    for (const auto* part : {&values, &head}) {
      data.append(reinterpret_cast<const char*>(part->data()), part->size() * 4);
    }
    directory_.write("model.safetensors",
                     safetensors_bytes(R"({
      "model.embed_tokens.weight":{"dtype":"F32","shape":[10,1],"data_offsets":[0,40]},
      "lm_head.weight":{"dtype":"F32","shape":[10,1],"data_offsets":[40,80]}})",
                                       data));
    return open();
  };
  EXPECT_TRUE(tied(true, matrices(values)));
  std::vector<float> other = values;
  other.back() = 11;
  EXPECT_FALSE(tied(true, matrices(other)));
}

TEST_F(VerifyWeights, names_every_kind_of_tensor_that_nothing_reads_but_known_leftovers) {
  const DummyWeights source(config_, 1);
  for (const char* name : {"model.layers.0.self_attn.q_proj.bias",
                           "model.layers.0.mlp.extra.weight",
                           "model.layers.2.input_layernorm.weight",
                           "odd",
                           "lm_head.bias"}) {
    EXPECT_THAT(verify_weights(config_, OneMore(source, name)), ElementsAre(HasSubstr(name)));
  }
  for (const char* name : {"model.layers.0.self_attn.rotary_emb.inv_freq",
                           "embeddings.position_ids",
                           "transformer.h.0.attn.masked_bias",
                           "model.layers.0.self_attn.q_proj.input_scale"}) {
    EXPECT_THAT(verify_weights(config_, OneMore(source, name)), IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace reprise::weights
