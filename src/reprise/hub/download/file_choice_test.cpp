#include "reprise/hub/download/file_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<RepositoryFile> repository(const std::vector<std::string>& paths) {
  std::vector<RepositoryFile> files;
  for (const std::string& path : paths) files.push_back({.path = path, .size = path.size()});
  return files;
}

std::vector<std::string> chosen(const std::vector<std::string>& paths, std::string_view wanted) {
  std::vector<std::string> found;
  for (const RepositoryFile& file : choose_files(repository(paths), wanted, "a/b")) {
    found.push_back(file.path);
  }
  std::ranges::sort(found);
  return found;
}

std::string refusal(const std::vector<std::string>& paths, std::string_view wanted) {
  try {
    (void)choose_files(repository(paths), wanted, "a/b");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(FileChoice, takes_what_the_engine_reads) {
  EXPECT_THAT(chosen({".gitattributes",
                      "README.md",
                      "config.json",
                      "merges.txt",
                      "vocab.json",
                      "model-00001-of-00002.safetensors",
                      "model-00002-of-00002.safetensors",
                      "model.safetensors.index.json",
                      "pytorch_model.bin",
                      "tf_model.h5",
                      "onnx/model.onnx",
                      "original/consolidated.00.pth",
                      "consolidated.safetensors",
                      "chat_template.jinja",
                      "tokenizer.model",
                      "qwen.tiktoken",
                      "additional_chat_templates/tool_use.jinja",
                      "1_Pooling/config.json",
                      "2_Dense/model.safetensors",
                      "figures/a.json",
                      "unet/model.safetensors",
                      "model-Q4_0.gguf"},
                     ""),
              ElementsAre("1_Pooling/config.json",
                          "2_Dense/model.safetensors",
                          "additional_chat_templates/tool_use.jinja",
                          "chat_template.jinja",
                          "config.json",
                          "merges.txt",
                          "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json",
                          "qwen.tiktoken",
                          "tokenizer.model",
                          "vocab.json"));
}

TEST(FileChoice, takes_small_files_first) {
  const auto files = choose_files({{.path = "model.safetensors", .size = 100},
                                   {.path = "config.json", .size = 2},
                                   {.path = "tokenizer.json", .size = 50}},
                                  "",
                                  "a/b");
  EXPECT_EQ(files.at(0).path, "config.json");
  EXPECT_EQ(files.at(2).path, "model.safetensors");
}

TEST(FileChoice, a_name_takes_one_model_or_one_file) {
  EXPECT_THAT(chosen({"a-Q4_0.gguf", "a-Q8_0.gguf", "config.json"}, "Q4_0"),
              ElementsAre("a-Q4_0.gguf"));
  EXPECT_THAT(chosen({"a-Q4_0.gguf", "config.json"}, "config.json"), ElementsAre("config.json"));
}

TEST(FileChoice, says_what_the_repository_has_when_nothing_fits) {
  EXPECT_THAT(refusal({"a-Q4_0.gguf", "a-Q8_0.gguf"}, ""),
              HasSubstr("reprise pull a/b:a-Q4_0.gguf"));
  EXPECT_THAT(refusal({"a-Q4_0.gguf", "config.json"}, "Q5_0"), HasSubstr("a-Q4_0.gguf"));
  EXPECT_THAT(refusal({"config.json", "pytorch_model.bin"}, ""), HasSubstr("pickles"));
  EXPECT_THAT(refusal({"config.json"}, ""), HasSubstr("no .safetensors"));
}

}  // namespace
}  // namespace reprise::hub
