#include "reprise/api/options/lora_modules.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

LoraModulePath parse(std::string_view text) { return parse_lora_module("--lora-modules", text); }

TEST(LoraModules, are_a_name_and_a_folder) {
  EXPECT_EQ(parse("sql=/adapters/a=b"), (LoraModulePath{.name = "sql", .path = "/adapters/a=b"}));
}

TEST(LoraModules, are_json_objects_with_vllms_members) {
  EXPECT_EQ(parse(R"({"name": "sql", "path": "a", "base_model_name": "m"})"),
            (LoraModulePath{.name = "sql", .path = "a", .base_model_name = "m"}));
  EXPECT_EQ(parse(R"({"path": "a", "name": "sql", "base_model_name": null})"),
            (LoraModulePath{.name = "sql", .path = "a"}));
}

TEST(LoraModules, are_refused_without_a_name_or_folder_and_with_unknown_members) {
  for (const char* text : {"",
                           "sql",
                           "=a",
                           "sql=",
                           "{",
                           "{}",
                           R"({"name": "sql"})",
                           R"({"name": "sql", "path": 5})",
                           R"({"name": "sql", "path": "a", "rank": 8})"}) {
    EXPECT_THROW((void)parse(text), InvalidArgument) << text;
  }
}

}  // namespace
}  // namespace reprise::api
