#include "reprise/cli/vllm_flags.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "tests/support/source_dir.h"

namespace reprise::cli {
namespace {

// Parses on a table with only vLLM's flags; returns the error, or an empty text if accepted.
std::string flag_refusal(std::vector<std::string> arguments) {
  OptionTable table("", "");
  add_vllm_flags(table);
  try {
    (void)table.parse(arguments);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(VllmFlags, are_listed_once_each) {
  std::set<std::string_view> names;
  for (const VllmFlag& flag : vllm_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    if (!flag.short_name.empty()) {
      EXPECT_TRUE(names.insert(flag.short_name).second) << flag.short_name;
    }
    EXPECT_FALSE(flag.why.empty()) << flag.name;
    EXPECT_NE(flag.why.back(), '.') << flag.name;
  }
}

TEST(VllmFlags, what_is_done_anyway_is_accepted_once_and_said) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(flag_refusal({"-dcp", "1", "--no-enable-lora-bias", "--dtype-of-nothing-else=1"})
                .find("unknown"),
            0U);
  (void)testing::internal::GetCapturedStderr();
  testing::internal::CaptureStderr();
  EXPECT_EQ(flag_refusal({"--decode-context-parallel-size", "1"}), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "--decode-context-parallel-size 1 has no effect here: ranks divide heads, layers, "
            "experts or requests, and nothing else\n");
}

TEST(VllmFlags, what_would_change_results_is_refused_with_the_reason) {
  EXPECT_EQ(flag_refusal({"-dcp", "2"}),
            "--decode-context-parallel-size 2 is not supported: ranks divide heads, layers, "
            "experts or requests, and nothing else; only 1 is");
  EXPECT_EQ(
      flag_refusal({"--enable-lora-bias"}),
      "--enable-lora-bias is not supported: adapters are plain LoRA in the type of the model");
  EXPECT_NE(flag_refusal({"--hf-config-path", "x"}), "");
}

TEST(VllmFlags, an_option_of_our_own_comes_first) {
  OptionTable table("", "");
  int32_t size = 0;
  table.add_integer("tensor-parallel-size", "Own", "", size);
  add_vllm_flags(table);
  (void)table.parse(std::vector<std::string>{"--tensor-parallel-size", "4"});
  EXPECT_EQ(size, 4);
}

TEST(VllmFlags, no_two_options_of_serve_have_one_name) {
  std::set<std::string> names;
  const OptionTable serve = serve_options();
  for (const Option& option : serve.options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    if (!option.short_name.empty()) {
      EXPECT_TRUE(names.insert(option.short_name).second) << option.short_name;
    }
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option.group.empty()) << option.name;
  }
}

// The flag without its dashes, and whether vLLM takes several values for it.
struct ServeFlag {
  std::string name;
  bool takes_several = false;
};

// The file is written by tools/make_vllm_flags.py from an installed vLLM.
std::vector<ServeFlag> flags_of_vllm_serve() {
  std::ifstream file(source_dir() + "/tests/goldens/vllm_serve_flags.txt");
  std::vector<ServeFlag> flags;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("--")) continue;
    const size_t end = line.find(' ');
    flags.push_back({.name = line.substr(2, end - 2), .takes_several = end != std::string::npos});
  }
  return flags;
}

TEST(VllmFlags, every_flag_of_vllm_serve_is_known) {
  const std::vector<ServeFlag> flags = flags_of_vllm_serve();
  ASSERT_GT(flags.size(), 350U);
  const OptionTable serve = serve_options();
  for (const ServeFlag& flag : flags) {
    if (flag.name == "config") continue;  // read before all options, by configure()
    const Option* option = serve.find(flag.name);
    if (option == nullptr && flag.name.starts_with("no-")) {
      option = serve.find(flag.name.substr(3));
      EXPECT_TRUE(option == nullptr || option->value_name.empty()) << flag.name;
    }
    ASSERT_NE(option, nullptr) << flag.name;
    EXPECT_TRUE(option->takes_several || !flag.takes_several) << flag.name;
  }
}

TEST(VllmFlags, names_after_a_flag_are_its_values) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(flag_refusal({"MODEL", "--ignore-patterns", "*.bin", "*.pth"}), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "--ignore-patterns *.bin has no effect here: only `reprise pull` downloads; models are "
            "on this machine\n"
            "--ignore-patterns *.pth has no effect here: only `reprise pull` downloads; models are "
            "on this machine\n");
}

}  // namespace
}  // namespace reprise::cli
