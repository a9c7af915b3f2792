// Runs every input that a fuzzer kept, and a few thousand changed ones, through every parser: a
// parser that crashes, hangs or breaks a promise fails here, without a fuzzer.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/support/source_dir.h"

namespace reprise::fuzz {
namespace {

struct Target {
  const char* name;
  void (*run)(std::string_view);
};

constexpr Target kTargets[] = {
    {"cache_manifest", cache_manifest},
    {"chat_template", chat_template},
    {"gguf", gguf},
    {"http", http},
    {"json", json},
    {"model_config", model_config},
    {"pattern", pattern},
    {"ranked_bytes", ranked_bytes},
    {"safetensors", safetensors},
    {"schema", schema},
    {"sentencepiece", sentencepiece},
    {"tokenizer_file", tokenizer_file},
    {"tokenizer_text", tokenizer_text},
};

std::string name_of(const testing::TestParamInfo<Target>& info) { return info.param.name; }

std::vector<std::string> corpus_of(const Target& target) {
  const std::filesystem::path folder = source_dir() + "/tests/fuzz/corpus/" + target.name;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

/// The input with a few bytes changed, dropped or taken from another input.
std::string changed(std::string input, const std::string& other, std::mt19937& chance) {
  const auto any = [&chance](size_t end) { return end == 0 ? 0 : chance() % end; };
  for (size_t i = 1 + any(3); i > 0; --i) {
    const size_t at = any(input.size() + 1);
    switch (any(4)) {
      case 0:
        input.insert(at, 1, static_cast<char>(any(256)));
        break;
      case 1:
        input.erase(at, 1 + any(4));
        break;
      case 2:
        if (at < input.size()) input[at] ^= static_cast<char>(1 << any(8));
        break;
      default:
        input.insert(at, other, any(other.size() + 1), 1 + any(16));
    }
  }
  return input;
}

class Parser : public testing::TestWithParam<Target> {};

TEST_P(Parser, keeps_its_promises_for_every_input_of_the_corpus) {
  const std::vector<std::string> inputs = corpus_of(GetParam());
  ASSERT_FALSE(inputs.empty());
  for (const std::string& input : inputs) GetParam().run(input);
}

TEST_P(Parser, keeps_its_promises_for_changed_inputs) {
  constexpr int kNumChanged = 1000;
  const std::vector<std::string> inputs = corpus_of(GetParam());
  ASSERT_FALSE(inputs.empty());
  std::mt19937 chance(1);
  for (int i = 0; i < kNumChanged; ++i) {
    const std::string& input = inputs[chance() % inputs.size()];
    GetParam().run(changed(input, inputs[chance() % inputs.size()], chance));
  }
}

TEST_P(Parser, keeps_its_promises_for_no_bytes_and_for_one) {
  GetParam().run("");
  for (int byte = 0; byte < 256; ++byte) GetParam().run(std::string(1, static_cast<char>(byte)));
}

INSTANTIATE_TEST_SUITE_P(Every, Parser, testing::ValuesIn(kTargets), name_of);

}  // namespace
}  // namespace reprise::fuzz
