// The main function of a binary that holds several tests of ctest (reprise_test(... IN binary)):
// each test of ctest runs the cases of its own sources.
//
//   x_test --files=a_test.cpp,b_test.cpp    the cases that these sources define
//   x_test --gtest_filter=...               as in every binary of GoogleTest; decides alone, also
//   if both are given

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

// Name of a source -> filter of its cases, each followed by a colon.
std::map<std::string, std::string> filters_of_sources() {
  std::map<std::string, std::string> filters;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      filters[std::filesystem::path(test.file()).filename()] +=
          std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filters;
}

// False, with a message, if one of the comma-separated names is not that of a source with cases.
bool choose(std::string_view names) {
  const std::map<std::string, std::string> filters = filters_of_sources();
  std::string chosen;
  while (!names.empty()) {
    const std::string name(names.substr(0, names.find(',')));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto found = filters.find(name);
    if (found == filters.end()) {
      std::fprintf(
          stderr, "--files: no case of this binary is defined in '%s'; it has\n", name.c_str());
      for (const auto& [source, filter] : filters) {
        std::fprintf(stderr, "  %s\n", source.c_str());
      }
      return false;
    }
    chosen += found->second;
  }
  testing::GTEST_FLAG(filter) = chosen;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  constexpr std::string_view kFiles = "--files=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFiles)) {
      std::fprintf(stderr,
                   "unknown argument '%s'; expected --files=SOURCE[,SOURCE...] or --gtest_...\n",
                   argv[i]);
      return 2;
    }
    if (testing::GTEST_FLAG(filter) == "*" && !choose(argument.substr(kFiles.size()))) {
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
