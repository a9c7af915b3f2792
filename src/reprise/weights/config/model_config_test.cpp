#include "reprise/weights/config/model_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "reprise/base/json.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json base(std::string_view architecture = "LlamaForCausalLM") {
  return Json{{"architectures", {architecture}},
              {"hidden_size", 64},
              {"intermediate_size", 128},
              {"num_hidden_layers", 4},
              {"num_attention_heads", 8},
              {"num_key_value_heads", 2},
              {"vocab_size", 1000},
              {"max_position_embeddings", 2048},
              {"rms_norm_eps", 1e-5}};
}

Json with(std::string_view key, Json value, std::string_view architecture = "LlamaForCausalLM") {
  Json config = base(architecture);
  config[std::string(key)] = std::move(value);
  return config;
}

LoadedModelConfig load(const Json& json) { return parse_model_config(json.dump(), "config.json"); }
ModelConfig config_of(const Json& json) { return load(json).config; }

// "E_CONFIG field" or "accepted".
std::string refusal_of_text(std::string_view json) {
  try {
    (void)parse_model_config(json, "config.json");
  } catch (const FileError& error) {
    return error.code() + " " + error.field();
  }
  return "accepted";
}
std::string refusal(const Json& json) { return refusal_of_text(json.dump()); }

TEST(ModelConfig, reads_a_llama_with_defaults) {
  const LoadedModelConfig loaded = load(base());
  const ModelConfig& config = loaded.config;
  EXPECT_THAT(loaded.warnings, IsEmpty());
  EXPECT_EQ(config.architecture, Architecture::llama);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.q_size(), 64);
  EXPECT_EQ(config.kv_size(), 16);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(config.rope, RopeParameters{});
  EXPECT_FALSE(config.tie_word_embeddings || config.qkv_bias || config.o_bias || config.mlp_bias);
  EXPECT_FALSE(config.sliding_window.has_value());
  EXPECT_THAT(config.layer_types,
              ElementsAre(LayerType::full_attention,
                          LayerType::full_attention,
                          LayerType::full_attention,
                          LayerType::full_attention));
  EXPECT_FALSE(config.dtype.has_value());
}

TEST(ModelConfig, takes_all_heads_for_keys_when_their_number_is_not_given) {
  EXPECT_EQ(config_of(with("num_key_value_heads", nullptr)).num_key_value_heads, 8);
}

TEST(ModelConfig, reads_biases_as_each_model_class_has_them) {
  const ModelConfig llama = config_of(with("attention_bias", true));
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && !llama.mlp_bias);
  EXPECT_EQ(llama.qk_norm, QkNorm::none);
  EXPECT_TRUE(config_of(with("mlp_bias", true)).mlp_bias);
  const ModelConfig qwen2 = config_of(base("Qwen2ForCausalLM"));
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.o_bias && qwen2.qk_norm == QkNorm::none);
  const ModelConfig qwen3 = config_of(base("Qwen3ForCausalLM"));
  EXPECT_TRUE(!qwen3.qkv_bias && !qwen3.o_bias && qwen3.qk_norm == QkNorm::per_head);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_TRUE(config_of(with("attention_bias", true, "Qwen3ForCausalLM")).o_bias);
  const ModelConfig mistral = config_of(base("MistralForCausalLM"));
  EXPECT_TRUE(!mistral.qkv_bias && !mistral.o_bias && mistral.qk_norm == QkNorm::none);
}

TEST(ModelConfig, reads_rope_in_the_old_and_the_new_spelling) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 32.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  Json old_style = with("rope_theta", 500000.0);
  old_style["rope_scaling"] = llama3;
  Json parameters = llama3;
  parameters["rope_theta"] = 500000.0;
  const RopeParameters expected{.type = RopeType::llama3,
                                .theta = 500000.0,
                                .factor = 32.0,
                                .low_freq_factor = 1.0,
                                .high_freq_factor = 4.0,
                                .original_max_position_embeddings = 8192};
  EXPECT_EQ(config_of(old_style).rope, expected);
  EXPECT_EQ(config_of(with("rope_parameters", parameters)).rope, expected);
  EXPECT_EQ(config_of(with("rope_theta", 1000000)).rope.theta, 1e6);
  const RopeParameters linear =
      config_of(with("rope_scaling", {{"type", "linear"}, {"factor", 2}})).rope;
  EXPECT_EQ(linear.type, RopeType::linear);
  EXPECT_EQ(linear.factor, 2.0);
  EXPECT_EQ(config_of(with("rope_scaling", nullptr)).rope, RopeParameters{});
  EXPECT_EQ(
      config_of(with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}})).rope,
      RopeParameters{});
}

TEST(ModelConfig, takes_the_base_of_rope_parameters_and_the_scaling_of_rope_scaling) {
  Json json = with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5000.0}});
  json["rope_theta"] = 10000.0;
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  const LoadedModelConfig loaded = load(json);
  EXPECT_EQ(loaded.config.rope.theta, 5000.0);
  EXPECT_EQ(loaded.config.rope.type, RopeType::linear);
  EXPECT_EQ(loaded.warnings.size(), 2u);
}

// The positions are those of vLLM's _get_and_verify_max_len.
TEST(ModelConfig, derives_the_longest_context_from_the_scaling) {
  const auto longest = [](const Json& scaling, std::string_view name = "LlamaForCausalLM") {
    return config_of(with("rope_scaling", scaling, name)).derived_max_model_len();
  };
  EXPECT_EQ(longest(nullptr), 2048);
  EXPECT_EQ(longest({{"rope_type", "linear"}, {"factor", 2.5}}), 5120);
  EXPECT_EQ(longest({{"rope_type", "dynamic"}, {"factor", 4}}), 8192);
  Json yarn = {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 1024}};
  EXPECT_EQ(longest(yarn), 4096);
  EXPECT_EQ(longest({{"rope_type", "linear"}, {"factor", 8}}, "Gemma3ForCausalLM"), 2048);
  yarn["factor"] = 1e6;
  EXPECT_EQ(longest(yarn), int64_t{1} << 27) << "the most positions";
}

TEST(ModelConfig, says_what_a_folder_without_a_config_is) {
  const TempDirectory folder;
  const auto said = [&] {
    return message_of([&] { (void)load_model_config(ModelDirectory(folder.path())); });
  };
  EXPECT_THAT(said(), HasSubstr("config.json: no such file"));
  folder.write("params.json", "{}");
  EXPECT_THAT(said(), HasSubstr("Mistral's own format"));
  folder.write("adapter_config.json", "{}");
  EXPECT_THAT(said(), HasSubstr("--lora-modules NAME=" + folder.path().string()));
  folder.write("tiny.gguf", "GGUF");
  EXPECT_THAT(said(), HasSubstr((folder.path() / "tiny.gguf").string()));
}

TEST(ModelConfig, says_that_an_adapter_beside_a_model_is_not_applied) {
  const TempDirectory folder;
  folder.write("config.json", base().dump());
  const auto warnings = [&] { return load_model_config(ModelDirectory(folder.path())).warnings; };
  EXPECT_THAT(warnings(), IsEmpty());
  folder.write("adapter_config.json", "{}");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("is not applied")));
}

TEST(ModelConfig, names_overrides_that_nothing_reads) {
  const auto warnings = [](const Json& overrides, const Json& config) {
    return parse_model_config(config.dump(), "config.json", overrides).warnings;
  };
  EXPECT_THAT(warnings({{"rope_theta", 5000}, {"rms_norm_eps", 1e-6}}, base()), IsEmpty());
  EXPECT_THAT(warnings({{"rope_scalling", 2}, {"use_cache", false}}, base()),
              ElementsAre(HasSubstr("rope_scalling, use_cache")));
  const Json vision = {{"architectures", {"Qwen3VLForConditionalGeneration"}},
                       {"text_config", with("model_type", "qwen3_vl_text")}};
  EXPECT_THAT(warnings({{"rope_theta", 5000}}, vision),
              ElementsAre(HasSubstr("only the language model"), HasSubstr("rope_theta")));
  EXPECT_THAT(warnings({{"text_config", {{"rope_theta", 5000}}}}, vision),
              ElementsAre(HasSubstr("only the language model")));
  EXPECT_THAT(warnings({{"text_config", {{"odd", 1}}}}, vision),
              ElementsAre(HasSubstr("only the language model"), HasSubstr("text_config.odd")));
}

TEST(ModelConfig, names_the_supported_rope_types) {
  for (const char* type : {"xpos", "ntk", "axial"}) {
    const std::string message = message_of(
        [&] { (void)load(with("rope_scaling", {{"rope_type", type}, {"factor", 4.0}})); });
    EXPECT_THAT(message, HasSubstr("rope_scaling.rope_type"));
    EXPECT_THAT(message, HasSubstr("default, linear, dynamic, yarn, longrope, llama3"));
  }
  EXPECT_EQ(refusal(with("rope_parameters", {{"full_attention", {{"rope_type", "default"}}}})),
            "E_CONFIG rope_parameters.full_attention");
  EXPECT_EQ(refusal(with("partial_rotary_factor", 0.5)), "E_CONFIG partial_rotary_factor");
}

TEST(ModelConfig, F18_refuses_rope_factors_that_are_zero_negative_or_not_finite) {
  for (const char* factor : {"0", "0.0", "-1", "0.5", "null", "\"2\"", "true"}) {
    const Json scaling = {{"type", "linear"}, {"factor", Json::parse(factor)}};
    EXPECT_EQ(refusal(with("rope_scaling", scaling)), "E_CONFIG rope_scaling.factor") << factor;
  }
  std::string text = with("rope_scaling", {{"type", "linear"}, {"factor", 77777}}).dump();
  text.replace(text.find("77777"), 5, "1e400");
  EXPECT_EQ(refusal_of_text(text).substr(0, 8), "E_CONFIG");
  EXPECT_EQ(refusal(with("rope_scaling", {{"type", "linear"}})), "E_CONFIG rope_scaling.factor");
  EXPECT_EQ(refusal(with("rope_theta", 0)), "E_CONFIG rope_theta");
  EXPECT_EQ(refusal(with("rope_theta", -10000)), "E_CONFIG rope_theta");
  EXPECT_EQ(refusal(with("rope_scaling",
                         {{"rope_type", "llama3"},
                          {"factor", 8},
                          {"low_freq_factor", 4},
                          {"high_freq_factor", 3},
                          {"original_max_position_embeddings", 8192}})),
            "E_CONFIG rope_scaling.high_freq_factor");
}

TEST(ModelConfig, F15_refuses_sizes_out_of_range_at_once) {
  for (const char* key : {"hidden_size",
                          "intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "vocab_size",
                          "max_position_embeddings",
                          "head_dim"}) {
    for (const char* value : {"0",
                              "-1",
                              "2147483648",
                              "1000000000",
                              "18446744073709551615",
                              "9223372036854775808",
                              "64.0",
                              "6.4e1",
                              "\"64\"",
                              "true",
                              "[64]"}) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(refusal(with(key, Json::parse(value))), std::string("E_CONFIG ") + key) << value;
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
    }
  }
  for (const char* key : {"hidden_size",
                          "intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "vocab_size",
                          "max_position_embeddings"}) {
    Json json = base();
    json.erase(key);
    EXPECT_EQ(refusal(json), std::string("E_CONFIG ") + key);
  }
}

TEST(ModelConfig, F15_refuses_heads_that_do_not_divide) {
  EXPECT_EQ(refusal(with("num_key_value_heads", 3)), "E_CONFIG num_key_value_heads");
  EXPECT_EQ(refusal(with("num_key_value_heads", 16)), "E_CONFIG num_key_value_heads");
  EXPECT_EQ(refusal(with("hidden_size", 65)), "E_CONFIG num_attention_heads");
  EXPECT_EQ(refusal(with("hidden_size", 8)), "E_CONFIG head_dim");
  EXPECT_EQ(refusal(with("head_dim", 7)), "E_CONFIG head_dim");
  Json explicit_dim = with("hidden_size", 65);
  explicit_dim["head_dim"] = 16;
  EXPECT_EQ(refusal(explicit_dim), "accepted");
}

TEST(ModelConfig, F17_ignores_auto_map_with_a_warning) {
  const LoadedModelConfig loaded =
      load(with("auto_map", {{"AutoModelForCausalLM", "modeling_evil.Evil"}}));
  ASSERT_EQ(loaded.warnings.size(), 1u);
  EXPECT_THAT(loaded.warnings[0], HasSubstr("auto_map"));
}

TEST(ModelConfig, refuses_unknown_architectures_with_the_nearest_name) {
  const std::string message = message_of([] { (void)load(base("Qwen2ForCausaLM")); });
  // A list of all classes would hide the suggestion.
  EXPECT_LT(message.size(), 300U) << message;
  EXPECT_THAT(message, HasSubstr("did you mean 'Qwen2ForCausalLM'"));
  EXPECT_THAT(message, HasSubstr("reprise reference architectures"));
  EXPECT_THAT(message_of([] { (void)load(base("Gemma5ForCausalLM")); }),
              HasSubstr("did you mean 'Gemma"));
  for (const char* other : {"BloomForCausalLM", "MambaForCausalLM", "WhisperForCausalLM"}) {
    EXPECT_THAT(message_of([other] { (void)load(base(other)); }),
                ::testing::Not(HasSubstr("did you mean")));
  }
  EXPECT_EQ(refusal(base("T5Model")), "E_CONFIG architectures");
  for (const char* value : {"[]", "\"LlamaForCausalLM\"", "[1]", "{}"}) {
    EXPECT_EQ(refusal(with("architectures", Json::parse(value))), "E_CONFIG architectures")
        << value;
  }
  Json no_list = with("architectures", nullptr);
  EXPECT_EQ(refusal(no_list), "E_CONFIG architectures");
  no_list["model_type"] = "mistral";
  EXPECT_EQ(config_of(no_list).architecture, Architecture::mistral);
  no_list["model_type"] = "bloom";
  EXPECT_EQ(refusal(no_list), "E_CONFIG model_type");
}

TEST(ModelConfig, refuses_what_it_cannot_run) {
  EXPECT_EQ(refusal(with("quantization_config", {{"quant_method", "exl2"}})),
            "E_CONFIG quantization_config.quant_method");
  EXPECT_EQ(refusal(with("hidden_act", "relu2")), "E_CONFIG hidden_act");
  EXPECT_EQ(refusal(with("hidden_act", "relu")), "E_CONFIG hidden_act");
  EXPECT_EQ(refusal(with("hidden_act", "silu")), "accepted");
  EXPECT_EQ(refusal(with("torch_dtype", "float8_e4m3fn")), "E_CONFIG torch_dtype");
  EXPECT_EQ(refusal(with("dtype", "int8")), "E_CONFIG dtype");
  EXPECT_EQ(refusal(with("rms_norm_eps", 0)), "E_CONFIG rms_norm_eps");
  EXPECT_EQ(refusal(with("tie_word_embeddings", 1)), "E_CONFIG tie_word_embeddings");
}

TEST(ModelConfig, reads_the_element_type_in_both_spellings) {
  EXPECT_EQ(config_of(with("torch_dtype", "bfloat16")).dtype, DType::bf16);
  EXPECT_EQ(config_of(with("dtype", "float16")).dtype, DType::f16);
  EXPECT_EQ(config_of(with("torch_dtype", "auto")).dtype, std::nullopt);
}

TEST(ModelConfig, honours_the_sliding_window_of_mistral_value_and_null) {
  const ModelConfig given = config_of(with("sliding_window", 1024, "MistralForCausalLM"));
  EXPECT_EQ(given.window_of_layer(0), 1024);
  EXPECT_THAT(given.layer_types, Each(LayerType::sliding_attention));
  const ModelConfig none = config_of(with("sliding_window", nullptr, "MistralForCausalLM"));
  EXPECT_EQ(none.window_of_layer(3), std::nullopt);
  EXPECT_EQ(config_of(base("MistralForCausalLM")).sliding_window, 4096);
  EXPECT_EQ(refusal(with("sliding_window", 0, "MistralForCausalLM")), "E_CONFIG sliding_window");
}

TEST(ModelConfig, applies_the_sliding_window_of_qwen_only_when_it_is_used) {
  Json json = with("sliding_window", 512, "Qwen2ForCausalLM");
  json["max_window_layers"] = 3;
  EXPECT_EQ(config_of(json).sliding_window, std::nullopt);
  json["use_sliding_window"] = true;
  const ModelConfig config = config_of(json);
  EXPECT_EQ(config.window_of_layer(2), std::nullopt);
  EXPECT_EQ(config.window_of_layer(3), 512);
  json["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(config_of(json).window_of_layer(0), 512);
  json["layer_types"] = {"full_attention"};
  EXPECT_EQ(refusal(json), "E_CONFIG layer_types");
  json["layer_types"] = {"chunked_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(refusal(json), "E_CONFIG layer_types");
}

TEST(ModelConfig, refuses_sliding_layers_without_a_window) {
  EXPECT_EQ(
      refusal(with("layer_types",
                   {"sliding_attention", "full_attention", "full_attention", "full_attention"})),
      "E_CONFIG layer_types");
}

TEST(ModelConfig, reads_token_ids_as_one_or_as_a_list) {
  EXPECT_THAT(config_of(with("eos_token_id", 2)).eos_token_ids, ElementsAre(2));
  EXPECT_THAT(config_of(with("eos_token_id", {1, 2, 3})).eos_token_ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(config_of(with("eos_token_id", nullptr)).eos_token_ids, IsEmpty());
  EXPECT_EQ(config_of(with("bos_token_id", 1)).bos_token_id, 1);
  EXPECT_EQ(refusal(with("eos_token_id", 1000)), "E_CONFIG eos_token_id");
  EXPECT_EQ(refusal(with("bos_token_id", -1)), "E_CONFIG bos_token_id");
}

TEST(ModelConfig, refuses_documents_that_are_not_one_strict_json_object) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text : {""sv,
                                      "{"sv,
                                      "[]"sv,
                                      "{}x"sv,
                                      "{}\0"sv,
                                      "\xEF\xBB\xBF{}"sv,
                                      R"({"hidden_size":1,"hidden_size":2})"sv}) {
    EXPECT_EQ(refusal_of_text(text), "E_CONFIG ") << text;
  }
}

TEST(ModelConfig, loads_from_a_directory) {
  const TempDirectory directory;
  const ModelDirectory model(directory.path());
  EXPECT_EQ(code_of([&] { (void)load_model_config(model); }), "E_MISSING");
  directory.write("config.json", base().dump());
  EXPECT_EQ(load_model_config(model).config, config_of(base()));
  Json wider = base();
  wider["hidden_size"] = 128;
  wider.erase("sliding_window");
  const Json overrides = {{"hidden_size", 128}, {"sliding_window", nullptr}};
  EXPECT_EQ(load_model_config(model, overrides).config, config_of(wider));
  EXPECT_EQ(code_of([&] { (void)load_model_config(model, {{"hidden_size", "wide"}}); }),
            "E_CONFIG");
  directory.write("config.json", "[]");
  EXPECT_EQ(code_of([&] { (void)load_model_config(model, base()); }), "E_CONFIG");
  directory.write("config.json", std::string((4u << 20) + 1, ' '));
  EXPECT_EQ(code_of([&] { (void)load_model_config(model); }), "E_TOO_LARGE");
}

TEST(ModelConfig, reads_the_numbers_that_python_writes_and_json_does_not_have) {
  const auto mamba2 = [](const char* limit) {
    return fmt::format(
        R"({{"architectures": ["Mamba2ForCausalLM"], "a": "NaN \" Infinity", "vocab_size": 9,
            "hidden_size": 8, "num_hidden_layers": 1, "num_heads": 4, "head_dim": 4, "n_groups": 1,
            "state_size": 4, "conv_kernel": 4, "time_step_limit": {}}})",
        limit);
  };
  EXPECT_EQ(parse_model_config(mamba2("[0.0, Infinity]"), "c").config.recurrent->num_heads, 4);
  for (const char* limit : {"[0.0, NaN]", "[-Infinity, Infinity]", "Infinity"}) {
    EXPECT_THAT(message_of([&] { (void)parse_model_config(mamba2(limit), "c"); }),
                HasSubstr("time_step_limit"))
        << limit;
  }
}

}  // namespace
}  // namespace reprise::weights
