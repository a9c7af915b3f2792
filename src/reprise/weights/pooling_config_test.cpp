#include "reprise/weights/pooling_config.h"

#include <gtest/gtest.h>

#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

constexpr const char* kModules = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";

std::string refusal(const TempDirectory& folder) {
  try {
    (void)load_pooling_config(ModelDirectory(folder.path()));
  } catch (const FileError& error) {
    return error.code() + " " + error.field();
  }
  return "accepted";
}

TEST(PoolingConfig, comes_from_the_modules_of_sentence_transformers) {
  const TempDirectory folder;
  const ModelDirectory directory(folder.path());
  EXPECT_FALSE(load_pooling_config(directory)) << "an ordinary model folder";
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})");
  EXPECT_EQ(load_pooling_config(directory),
            (PoolingConfig{.type = PoolingType::mean, .normalizes = true}));
  folder.write("modules.json",
               R"([{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_EQ(load_pooling_config(directory),
            (PoolingConfig{.type = PoolingType::last, .normalizes = false}));
}

TEST(PoolingConfig, refuses_what_it_cannot_do_and_what_leads_outside) {
  const TempDirectory folder;
  folder.write("modules.json", kModules);
  EXPECT_EQ(refusal(folder), "E_MISSING ") << "no folder of the pooling module";
  folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_EQ(refusal(folder), "E_CONFIG pooling_mode_mean_tokens");
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

}  // namespace
}  // namespace reprise::weights
