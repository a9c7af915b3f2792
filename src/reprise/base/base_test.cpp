#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/json_budget.h"
#include "reprise/base/log.h"
#include "reprise/base/nearest_name.h"
#include "reprise/base/python_literal.h"
#include "reprise/base/shared_library.h"
#include "reprise/base/thread_priority.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 3> kNames = {
    "cudagraph_mode", "cudagraph_capture_sizes", "compile_sizes"};

TEST(NearestName, finds_a_typing_mistake_and_ignores_dashes_and_case) {
  EXPECT_EQ(nearest_name("cudagraph-Mdoe", kNames), "cudagraph_mode");
  EXPECT_EQ(nearest_name("CUDAGRAPH_MODE", kNames), "cudagraph_mode");
  EXPECT_EQ(did_you_mean("compile_size", kNames), "; did you mean 'compile_sizes'?");
}

TEST(NearestName, counts_two_swapped_letters_as_one_mistake) {
  constexpr std::array<std::string_view, 4> kOptions = {"host", "port", "dtype", "model"};
  for (const auto& [typed, meant] : {std::pair{"prot", "port"},
                                     {"dtpye", "dtype"},
                                     {"modle", "model"},
                                     {"ohst", "host"},
                                     {"mdoel", "model"}}) {
    EXPECT_EQ(nearest_name(typed, kOptions), meant);
  }
  EXPECT_EQ(nearest_name("troop", kOptions), "");
}

TEST(NearestName, stays_silent_when_nothing_is_close) {
  EXPECT_EQ(nearest_name("temperature", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  constexpr std::array<std::string_view, 1> kOther = {"compilation_config"};
  EXPECT_EQ(nearest_name("speculative_config", kOther), "");
  EXPECT_EQ(nearest_name(std::string(10000, 'c'), kNames), "");
}

TEST(PythonLiteral, reads_what_python_writes_as_the_json_that_it_means) {
  for (const auto& [text, json] :
       {std::pair{R"({"a": [1, 2.5, true, null]})", R"({"a":[1,2.5,true,null]})"},
        {"{'mode': 3, 'ops': ['a', \"b\"], 'on': True, 'off': False, 'none': None}",
         R"({"mode":3,"ops":["a","b"],"on":true,"off":false,"none":null})"},
        {"['a','b']", R"(["a","b"])"},
        {"(1, 2,)", "[1,2]"},
        {"{'a': (1, {'b': [],},),}", R"({"a":[1,{"b":[]}]})"},
        {R"(['it\'s', 'say "x"', 'True', "None"])", R"(["it's","say \"x\"","True","None"])"},
        {"True", "true"}}) {
    EXPECT_EQ(parse_json_or_python(text, "test").dump(), json) << text;
  }
}

TEST(PythonLiteral, says_of_any_other_text_what_is_wrong_with_it_as_json) {
  for (const char* text :
       {"", "FULL", "['a'", "['a' 'b']", "{'a': 1, 'a': 2}", "[1,,2]", "'open", "{a: 1}", "[,]"}) {
    try {
      (void)parse_json_or_python(text, "--test");
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("--test: ")) << error.what();
    }
  }
}

TEST(ThreadPriority, is_lowered_for_one_thread_alone) {
  const auto niceness = [] { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())); };
  const int before = niceness();
  int of_thread = 0;
  std::thread([&] {
    make_this_thread_patient(10);
    of_thread = niceness();
  }).join();
  EXPECT_EQ(of_thread, std::min(before + 10, 19));
  EXPECT_EQ(niceness(), before);
}

TEST(Json, keeps_member_order_and_all_value_kinds) {
  const Json document = parse_json(R"({"b":[1,-2,2.5,true,null,"\u00e9"],"a":{}})", "test");
  EXPECT_EQ(document.dump(), R"({"b":[1,-2,2.5,true,null,"é"],"a":{}})");
  EXPECT_EQ(document.at("b").at(1), -2);
  EXPECT_TRUE(document.contains("a"));
}

TEST(JsonBudget, counts_texts_and_numbers_of_several_documents_together) {
  const auto accepts = [](std::string_view text, JsonBudget budget) {
    try {
      (void)parse_json(text, "test", {}, budget);
      return true;
    } catch (const InvalidArgument&) {
      return false;
    }
  };
  EXPECT_TRUE(accepts("[1,true,null]", {.max_parts = 1, .max_numbers = 3}));
  EXPECT_FALSE(accepts("[1,true,null,0.5]", {.max_parts = 1, .max_numbers = 3}));
  EXPECT_FALSE(accepts(R"({"a":1,"b":false})", {.max_parts = 9, .max_numbers = 1}));
  EXPECT_FALSE(accepts(R"(["","",""])", {.max_parts = 3}));
  EXPECT_TRUE(accepts(R"(["",""])", {.max_parts = 3}));
  EXPECT_FALSE(accepts(R"(["",""])", {.max_parts = 3, .num_parts = 1}));
  JsonBudget budget{.max_parts = 5, .max_numbers = 2};
  (void)parse_json(R"({"a":[1,2]})", "test", {}, budget);
  (void)parse_json(R"(["b"])", "test", {}, budget);
  EXPECT_EQ(budget.num_parts, 5U);
  EXPECT_EQ(budget.num_numbers, 2U);
  EXPECT_THROW((void)parse_json("[]", "test", {}, budget), InvalidArgument);
}

TEST(Json, counts_members_arrays_and_objects_but_not_numbers) {
  const auto accepts = [](std::string_view text, size_t max_parts) {
    try {
      (void)parse_json(text, "test", {.max_parts = max_parts});
      return true;
    } catch (const InvalidArgument&) {
      return false;
    }
  };
  EXPECT_TRUE(accepts("[1,2,3,4,5,6,7,8,9]", 1));
  EXPECT_FALSE(accepts("[[],[]]", 2));
  EXPECT_TRUE(accepts("[[],[]]", 3));
  EXPECT_FALSE(accepts(R"({"a":{"b":1}})", 3));
  EXPECT_TRUE(accepts(R"({"a":{"b":1}})", 4));
}

TEST(Json, quotes_little_of_what_it_cannot_read) {
  const std::string long_text(1'000'000, 'a');
  for (const std::string& text : {"\"" + long_text,
                                  "[" + std::string(1'000'000, '1') + "x]",
                                  "{\"" + long_text + "\":1,\"" + long_text + "\":2}"}) {
    try {
      (void)parse_json(text, "test");
      ADD_FAILURE() << "accepted";
    } catch (const InvalidArgument& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 400U);
      EXPECT_TRUE(std::string_view(error.what()).starts_with("test: not valid JSON"));
    }
  }
}

TEST(Json, refuses_what_rfc_8259_refuses_and_repeated_members) {
  for (const char* text : {"",
                           "{",
                           "[1,]",
                           "{\"a\":1}x",
                           "{\"a\":1,\"a\":2}",
                           "[NaN]",
                           "[1e999]",
                           "\xEF\xBB\xBF{}",
                           "[\"\xFF\"]",
                           "[\"\\ud800\"]"}) {
    EXPECT_THROW((void)parse_json(text, "test"), InvalidArgument) << text;
  }
}

TEST(Json, refuses_a_nul_byte_and_what_hides_behind_it) {
  EXPECT_THROW((void)parse_json(std::string_view("{}\0garbage", 10), "test"), InvalidArgument);
}

TEST(Json, stops_at_the_depth_limit_without_recursing) {
  EXPECT_NO_THROW((void)parse_json(std::string(64, '[') + std::string(64, ']'), "test"));
  EXPECT_THROW((void)parse_json(std::string(65, '[') + std::string(65, ']'), "test"),
               InvalidArgument);
  EXPECT_THROW((void)parse_json(std::string(1'000'000, '['), "test"), InvalidArgument);
}

TEST(Json, stops_at_the_size_limit) {
  EXPECT_THROW((void)parse_json("[1,2,3]", "test", JsonLimits{.max_bytes = 6}), InvalidArgument);
}

TEST(FileError, names_path_field_and_code) {
  const FileError error(
      "E_SHAPE", "m.safetensors", "lm_head.weight", "expected [4, 2], got [2, 4]");
  EXPECT_STREQ(error.what(),
               "m.safetensors: lm_head.weight: expected [4, 2], got [2, 4] [E_SHAPE]");
  EXPECT_EQ(error.code(), "E_SHAPE");
}

TEST(Log, writes_vllms_form_and_leaves_out_what_is_less_severe) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const Log log({.least = LogLevel::warning, .prefix = "(p) "}, file);
  log.info("not this");
  log.warning("GPU KV cache size: 1 tokens");
  std::rewind(file);
  std::array<char, 200> text{};
  const size_t length = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  // (p) WARNING 11-21 14:00:00 [base_test.cpp:1] ...
  const std::string line(text.data(), length);
  EXPECT_EQ(line.find("not this"), std::string::npos);
  EXPECT_TRUE(line.starts_with("(p) WARNING ")) << line;
  EXPECT_NE(line.find(" [base_test.cpp:"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("] GPU KV cache size: 1 tokens\n")) << line;
}

TEST(Log, levels_have_vllms_names) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  EXPECT_EQ(parse_log_level("WARN"), LogLevel::warning);
  EXPECT_THROW((void)parse_log_level("LOUD"), InvalidArgument);
}

TEST(SharedLibrary, is_loadable_when_all_of_it_is_there) {
  namespace fs = std::filesystem;
  Dl_info image{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::terminate), &image), 0);
  const fs::path whole = fs::canonical(image.dli_fname);
  EXPECT_EQ(why_not_loadable(whole), "") << whole;
  const fs::path part =
      fs::temp_directory_path() / ("reprise_cut_library_" + std::to_string(getpid()) + ".so");
  fs::copy_file(whole, part, fs::copy_options::overwrite_existing);
  const uintmax_t num_bytes = fs::file_size(whole);
  for (const uintmax_t size : {num_bytes - 1,
                               num_bytes / 2,
                               num_bytes / 16,
                               uintmax_t{4096},
                               uintmax_t{64},
                               uintmax_t{63},
                               uintmax_t{0}}) {
    fs::resize_file(part, size);
    EXPECT_NE(why_not_loadable(part), "") << size << " of " << num_bytes;
  }
  std::ofstream(part) << std::string(10000, 'x');
  EXPECT_EQ(why_not_loadable(part), "is not a shared library");
  fs::remove(part);
  EXPECT_NE(why_not_loadable(part), "");
  EXPECT_NE(why_not_loadable(fs::temp_directory_path()), "");
}

TEST(EqualIgnoringCase, compares_letters_of_ascii_only) {
  EXPECT_TRUE(equal_ignoring_case("HTTp://", "http://"));
  EXPECT_TRUE(equal_ignoring_case("", ""));
  EXPECT_FALSE(equal_ignoring_case("http", "https"));
  EXPECT_FALSE(equal_ignoring_case("@[", "`{"));  // beside the letters
}

}  // namespace
}  // namespace reprise
