#include "reprise/cli/configuration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "reprise/base/error.h"
#include "reprise/cli/config_file.h"
#include "reprise/cli/engine_options.h"

namespace reprise::cli {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

class ConfigurationTest : public testing::Test {
 protected:
  ~ConfigurationTest() override { std::filesystem::remove(path_); }

  // Applies these sources to `engine` and `keys`.
  std::optional<Configuration> load(std::vector<std::string> arguments,
                                    std::string_view yaml = "",
                                    const Variables& variables = {}) {
    engine = {};
    keys.clear();
    OptionTable table("reprise test MODEL [options]", "A table.");
    add_engine_options(table, engine);
    table.add({.name = "api-key",
               .group = "Server",
               .value_name = "KEY",
               .help = "A key.",
               .apply = [this](std::string_view value) { keys.emplace_back(value); },
               .is_secret = true,
               .adds_up = true});
    if (!yaml.empty()) {
      std::ofstream(path_, std::ios::binary) << yaml;
      arguments.insert(arguments.end(), {"--config", path_.string()});
    }
    return configure(table, arguments, [&](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  }

  std::string refusal(std::string_view yaml,
                      std::vector<std::string> arguments = {},
                      const Variables& variables = {}) {
    try {
      (void)load(std::move(arguments), yaml, variables);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      ("reprise_configuration_" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".yaml");
  api::EngineArgs engine;
  std::vector<std::string> keys;
};

TEST_F(ConfigurationTest, the_command_line_comes_before_the_environment_before_the_file) {
  const Variables variables = {{"REPRISE_ARG_MAX_NUM_SEQS", "3"}, {"REPRISE_ARG_BLOCK_SIZE", "32"}};
  load({"--max-num-seqs", "4"}, "max-num-seqs: 2\nblock_size: 8\nseed: 5\n", variables);
  EXPECT_EQ(engine.max_num_seqs, 4);
  EXPECT_EQ(engine.block_size, 32);
  EXPECT_EQ(engine.seed, 5U);
  EXPECT_EQ(engine.max_num_batched_tokens, 2048);
}

TEST_F(ConfigurationTest, a_file_has_the_booleans_of_pyyaml) {
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}) {
    engine = {};
    load({},
         fmt::format("enforce-eager: {}\nhf-overrides: {{a: {}, b: '{}'}}\n", word, word, word));
    EXPECT_TRUE(engine.enforce_eager) << word;
    EXPECT_EQ(engine.hf_overrides, (Json{{"a", true}, {"b", word}})) << word;
  }
  for (const char* word : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    engine = {};
    load({}, fmt::format("enable-chunked-prefill: {}\nhf-overrides: {{a: {}}}\n", word, word));
    EXPECT_FALSE(engine.enable_chunked_prefill) << word;
    EXPECT_EQ(engine.hf_overrides, (Json{{"a", false}})) << word;
  }
}

TEST_F(ConfigurationTest, fields_of_json_merge_and_the_stronger_source_wins_each) {
  load({"-cc.cudagraph_mode=FULL"},
       "compilation-config:\n  cudagraph_mode: NONE\n  cudagraph_capture_sizes: [1, 2]\n  "
       "debug_dump_path: '5'\n");
  EXPECT_EQ(
      engine.compilation_config,
      Json::parse(
          R"({"cudagraph_mode":"FULL","cudagraph_capture_sizes":[1,2],"debug_dump_path":"5"})"));
}

TEST_F(ConfigurationTest, keys_of_all_sources_count) {
  load({"--api-key", "a"}, "api-key: [b, c]\n", {{"VLLM_API_KEY", "d"}});
  EXPECT_EQ(keys, (std::vector<std::string>{"b", "c", "d", "a"}));
}

TEST_F(ConfigurationTest, vllms_variables_mean_what_they_mean_there) {
  load({},
       "",
       {{"VLLM_CPU_KVCACHE_SPACE", "2"},
        {"VLLM_CACHE_ROOT", "/somewhere"},
        {"VLLM_CPU_OMP_THREADS_BIND", "0-31|32-63"},
        {"REPRISE_ARG_ENFORCE_EAGER", "1"}});
  EXPECT_EQ(engine.cpu_threads_bind, "0-31|32-63");
  EXPECT_EQ(engine.kv_cache_memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(engine.compile_cache_root, "/somewhere/reprise_compile_cache");
  EXPECT_TRUE(engine.enforce_eager);
  load({},
       "",
       {{"VLLM_CPU_KVCACHE_SPACE", "0"},
        {"VLLM_CACHE_ROOT", "/somewhere"},
        {"VLLM_CPU_OMP_THREADS_BIND", ""},
        {"REPRISE_CACHE_ROOT", "/mine"}});
  EXPECT_EQ(engine.kv_cache_memory_bytes, std::nullopt);
  EXPECT_EQ(engine.compile_cache_root, "");
}

TEST_F(ConfigurationTest, cpu_options_are_as_stated_and_a_folder_of_no_name_is_refused) {
  load({"--cpu-threads-bind", "auto", "--packed-weights-cache", "/here"}, "");
  EXPECT_EQ(engine.cpu_threads_bind, "auto");
  EXPECT_EQ(engine.packed_weights_cache, "/here");
  EXPECT_THROW(load({"--packed-weights-cache", ""}, ""), InvalidArgument);
}

TEST_F(ConfigurationTest, switches_and_models_come_from_the_file_too) {
  load({}, "model: a folder\nenforce-eager: true\nenable-chunked-prefill: false\n");
  EXPECT_EQ(engine.model, "a folder");
  EXPECT_TRUE(engine.enforce_eager);
  EXPECT_FALSE(engine.enable_chunked_prefill);
}

TEST_F(ConfigurationTest, what_is_dumped_reads_back_as_the_same) {
  const auto first = load({"models/a: b",
                           "--max-num-seqs",
                           "1k",
                           "-cc.cudagraph_mode",
                           "FULL",
                           "--api-key",
                           "s3cret",
                           "--dtype",
                           "float32",
                           "--no-enable-chunked-prefill"},
                          "",
                          {{"REPRISE_ARG_SEED", "9"}});
  ASSERT_TRUE(first);
  const api::EngineArgs before = engine;
  const std::string dumped = first->to_yaml();
  EXPECT_EQ(dumped.find("s3cret"), std::string::npos);
  EXPECT_NE(dumped.find("seed: 9  # REPRISE_ARG_SEED\n"), std::string::npos) << dumped;
  EXPECT_NE(dumped.find("# block-size: 16  # default\n"), std::string::npos) << dumped;
  const auto second = load({}, dumped);
  ASSERT_TRUE(second);
  EXPECT_EQ(engine.model, before.model);
  EXPECT_EQ(engine.max_num_seqs, 1000);
  EXPECT_EQ(engine.seed, 9U);
  EXPECT_EQ(engine.dtype, "float32");
  EXPECT_FALSE(engine.enable_chunked_prefill);
  EXPECT_EQ(engine.compilation_config, before.compilation_config);
  EXPECT_EQ(first->to_line().find("s3cret"), std::string::npos);
}

TEST_F(ConfigurationTest, mistakes_in_a_file_are_located) {
  for (const auto& [yaml, expected] : {
           std::pair{
               "seed: 1\nmax-num-seq: 2\n",
               std::vector{":2: unknown option 'max-num-seq'", "did you mean --max-num-seqs?"}},
           {"seed: 1\n\nseed: 2\n", std::vector{":3:", "before in this file"}},
           {"seed:\n", std::vector{":1:", "no value"}},
           {"max-num-seqs: many\n", std::vector{":1:", "'many'"}},
           {"max-num-seqs: {a: 1}\n", std::vector{":1:", "max-num-seqs"}},
           {"enforce-eager: maybe\n", std::vector{":1:", "not true or false"}},
           {"a: [1\nb: 2\n", std::vector{"not YAML"}},
           {"- a\n- b\n", std::vector{":1:", "option: value"}},
           {"config: other.yaml\n", std::vector{":1:", "only works on the command line"}},
           {"compilation-config: {cudagraph_mode: "
            "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}\n",
            std::vector{"too large"}},
           {"? {a: b}\n: c\n", std::vector{":1:", "long name"}},
       }) {
    const std::string message = refusal(yaml);
    for (const char* part : expected)
      EXPECT_NE(message.find(part), std::string::npos) << yaml << message;
  }
}

TEST_F(ConfigurationTest, mistakes_in_the_environment_name_the_variable) {
  EXPECT_TRUE(refusal("", {}, {{"REPRISE_ARG_MAX_NUM_SEQS", "x"}})
                  .starts_with("REPRISE_ARG_MAX_NUM_SEQS: "));
  // A value that another source overrides is not parsed.
  EXPECT_EQ(refusal("", {"--max-num-seqs", "1"}, {{"REPRISE_ARG_MAX_NUM_SEQS", "x"}}), "accepted");
}

TEST_F(ConfigurationTest, a_file_that_explodes_is_refused) {
  std::string bomb = "compilation-config:\n  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format(
        "  a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n",
        i,
        i - 1);
  }
  EXPECT_NE(refusal(bomb).find("too large"), std::string::npos);
  EXPECT_NE(refusal(std::string(2 << 20, '#')).find("too many for a configuration"),
            std::string::npos);
}

TEST(YamlScalar, any_text_reads_back_as_itself) {
  OptionTable table("", "");
  table.add({.name = "x", .value_name = "TEXT", .apply = [](std::string_view) {}});
  for (std::string_view text :
       {"a",  "1",  "-",  "--x", "a b",  "a: b",    "#",    "null", "true", "",
        "\"", "\\", "\n", "\t",  "é",    "[1]",     "{}",   "*a",   "&a",   "!t",
        "%",  "@",  "~",  "1e5", "0x1F", "[\"*\"]", "\x7f", "x#y",  "x #y"}) {
    const std::string yaml = "x: " + to_yaml_scalar(text) + "\n";
    const std::vector<Assignment> read = parse_config(table, yaml, "f");
    ASSERT_EQ(read.size(), 1U) << yaml;
    EXPECT_EQ(read[0].value, text) << yaml;
  }
}

TEST(Environment, variables_that_nothing_reads_are_known) {
  EXPECT_EQ(unknown_variables(std::vector<std::string>{
                "VLLM_USE_V9", "PATH", "VLLM_API_KEY", "REPRISE_ARG_MAX_NUM_SEQS"}),
            (std::vector<std::string>{"VLLM_USE_V9"}));
}

TEST(Environment, a_misspelt_variable_of_an_option_is_named_with_the_nearest_one) {
  OptionTable table("", "");
  OptionTable serve("", "");
  int32_t value = 0;
  table.add_integer("max-num-seqs", "", "", value);
  serve.add_integer("port", "", "", value);
  EXPECT_EQ(unknown_option_variables(table,
                                     serve,
                                     std::vector<std::string>{"REPRISE_ARG_PROT",
                                                              "REPRISE_ARG_MAX_NUM_SEQS",
                                                              "REPRISE_ARG_PORT",
                                                              "REPRISE_ARG_MAX_NUM_SEQ",
                                                              "REPRISE_ARG_WHATEVER",
                                                              "VLLM_USE_V9"}),
            (std::vector<std::string>{
                "REPRISE_ARG_MAX_NUM_SEQ is set and means nothing here; did you mean "
                "REPRISE_ARG_MAX_NUM_SEQS?",
                "REPRISE_ARG_PROT is set and means nothing here; did you mean REPRISE_ARG_PORT?",
                "REPRISE_ARG_WHATEVER is set and means nothing here"}));
}

}  // namespace
}  // namespace reprise::cli
