#include "reprise/weights/config/pooling_config.h"

#include <gtest/gtest.h>

#include "reprise/base/json.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

constexpr const char* kModules = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";

std::string refusal(const TempDirectory& folder) {
  try {
    std::vector<std::string> warnings;
    (void)load_pooling_config(ModelDirectory(folder.path()), warnings);
  } catch (const FileError& error) {
    return error.code() + " " + error.field();
  }
  return "accepted";
}

TEST(PoolingConfig, comes_from_the_modules_of_sentence_transformers) {
  const TempDirectory folder;
  const ModelDirectory directory(folder.path());
  std::vector<std::string> warnings;
  EXPECT_FALSE(load_pooling_config(directory, warnings)) << "an ordinary model folder";
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})");
  EXPECT_EQ(load_pooling_config(directory, warnings),
            (PoolingConfig{.type = PoolingType::mean, .normalizes = true}));
  folder.write("modules.json",
               R"([{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_EQ(load_pooling_config(directory, warnings),
            (PoolingConfig{.type = PoolingType::last, .normalizes = false}));
}

TEST(PoolingConfig, refuses_what_it_cannot_do_and_what_leads_outside) {
  const TempDirectory folder;
  folder.write("modules.json", kModules);
  EXPECT_EQ(refusal(folder), "E_MISSING ") << "no folder of the pooling module";
  folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_EQ(refusal(folder), "E_CONFIG pooling_mode_max_tokens");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_of_tomorrow": true})");
  EXPECT_EQ(refusal(folder), "E_CONFIG pooling_mode_of_tomorrow");
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  EXPECT_EQ(refusal(folder), "E_CONFIG pooling_mode_mean_tokens");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": 1})");
  EXPECT_EQ(refusal(folder), "E_CONFIG pooling_mode_cls_token");
  for (const char* path : {"..", "/etc", "1_Pooling/..", ""}) {
    folder.write("modules.json",
                 std::string(R"([{"type": "x.Pooling", "path": ")") + path + R"("}])");
    EXPECT_EQ(refusal(folder).substr(0, 6), "E_PATH") << path;
  }
  const TempDirectory elsewhere;
  elsewhere.write("config.json", R"({"pooling_mode_cls_token": true})");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.path() / "linked");
  folder.write("modules.json", R"([{"type": "x.Pooling", "path": "linked"}])");
  EXPECT_EQ(refusal(folder).substr(0, 6), "E_PATH");
  folder.write("modules.json", R"({"0": {}})");
  EXPECT_EQ(refusal(folder), "E_CONFIG ");
}

TEST(PoolingConfig, reads_the_one_name_of_newer_versions) {
  const TempDirectory folder;
  const ModelDirectory directory(folder.path());
  std::vector<std::string> warnings;
  folder.write("modules.json", kModules);
  for (const auto& [name, type] : {std::pair{R"("cls")", PoolingType::cls},
                                   std::pair{R"(["lasttoken"])", PoolingType::last},
                                   std::pair{R"("mean")", PoolingType::mean}}) {
    folder.write("1_Pooling/config.json", std::string(R"({"pooling_mode": )") + name + "}");
    EXPECT_EQ(load_pooling_config(directory, warnings)->type, type) << name;
  }
  folder.write("1_Pooling/config.json", R"({"pooling_mode": ["cls", "mean"]})");
  EXPECT_EQ(refusal(folder), "E_CONFIG pooling_mode");
}

TEST(PoolingConfig, reads_projections_between_pooling_and_normalize) {
  const TempDirectory folder;
  const ModelDirectory directory(folder.path());
  std::vector<std::string> warnings;
  const auto modules = [&](std::initializer_list<const char*> kinds) {
    Json list = Json::array();
    for (const char* kind : kinds) {
      list.push_back({{"type", std::string("sentence_transformers.models.") + kind},
                      {"path", std::string("./") + kind}});
    }
    folder.write("modules.json", list.dump());
  };
  folder.write("Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  folder.write("Dense/config.json",
               R"({"in_features": 4, "out_features": 6, "bias": false,
                   "activation_function": "torch.nn.modules.linear.Identity"})");
  modules({"Transformer", "Pooling", "Dense", "Normalize"});
  EXPECT_EQ(load_pooling_config(directory, warnings)->dense,
            (std::vector<DenseModule>{{.folder = "Dense",
                                       .in_features = 4,
                                       .out_features = 6,
                                       .has_bias = false,
                                       .activation = DenseActivation::identity}}));
  const PoolingConfig stored = *load_pooling_config(directory, warnings);
  require_dense_sizes(stored, 4, directory);
  EXPECT_EQ(code_of([&] { require_dense_sizes(stored, 6, directory); }), "E_CONFIG");
  for (const auto& kinds : {std::initializer_list<const char*>{"Pooling", "Normalize", "Dense"},
                            {"Pooling", "CNN"},
                            {"Dense", "Pooling"},
                            {"Pooling", "Pooling"}}) {
    modules(kinds);
    EXPECT_EQ(refusal(folder), "E_CONFIG type");
  }
  modules({"Transformer", "LogitScore"});
  EXPECT_FALSE(load_pooling_config(directory, warnings)) << "no pooling: not a maker of vectors";
  modules({"Pooling", "Dense"});
  for (const auto& [json, field] :
       {std::pair{R"({"in_features": 4})", "out_features"},
        std::pair{R"({"in_features": 4, "out_features": 4, "use_residual": true})", "use_residual"},
        std::pair{R"({"in_features": 4, "out_features": 4, "activation_function": "x.Mish"})",
                  "activation_function"},
        std::pair{R"({"in_features": 4, "out_features": 4, "module_input_name": "tokens"})",
                  "module_input_name"}}) {
    folder.write("Dense/config.json", json);
    EXPECT_EQ(refusal(folder), std::string("E_CONFIG ") + field);
  }
}

TEST(PoolingConfig, reads_the_limit_of_texts_and_says_what_the_server_leaves_to_users) {
  const TempDirectory folder;
  const ModelDirectory directory(folder.path());
  std::vector<std::string> warnings;
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": false})");
  folder.write("config_sentence_transformers.json",
               R"({"prompts": {"query": "query: "}, "default_prompt_name": null,
                   "similarity_fn_name": "cosine"})");
  EXPECT_EQ(load_pooling_config(directory, warnings)->max_text_length, 256);
  EXPECT_TRUE(warnings.empty());
  folder.write("sentence_bert_config.json", R"({"max_seq_length": null, "do_lower_case": true})");
  folder.write("config_sentence_transformers.json",
               R"({"default_prompt_name": "query", "similarity_fn_name": "dot"})");
  EXPECT_EQ(load_pooling_config(directory, warnings)->max_text_length, 0);
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("do_lower_case"), std::string::npos);
  EXPECT_NE(warnings[1].find("'query'"), std::string::npos);
  EXPECT_NE(warnings[2].find("'dot'"), std::string::npos);
}

}  // namespace
}  // namespace reprise::weights
