#include "reprise/cli/option_table.h"

#include <gtest/gtest.h>

#include <random>

#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/manual.h"

namespace reprise::cli {
namespace {

struct Values {
  bool chunked = true;
  int32_t seqs = 256;
  std::vector<std::string> names;
  std::vector<std::string> fields;
};

OptionTable make_table(Values& values) {
  OptionTable table("reprise test MODEL [options]", "A table.");
  table.add_switch("enable-chunked-prefill", "Scheduler", "Cuts prompts.", values.chunked);
  table.add_integer("max-num-seqs", "Scheduler", "Requests in a step.", values.seqs);
  table.add({.name = "served-model-name",
             .group = "Server",
             .value_name = "NAME",
             .help = "Names.",
             .apply = [&values](std::string_view value) { values.names.emplace_back(value); },
             .takes_several = true});
  table.add({.name = "compilation-config",
             .short_name = "-cc",
             .group = "Graphs",
             .value_name = "JSON",
             .help = "Fields.",
             .apply = [&values](std::string_view value) { values.fields.emplace_back(value); },
             .apply_dotted =
                 [&values](std::string_view path, std::string_view value) {
                   values.fields.push_back(std::string(path) + "=" + std::string(value));
                 }});
  return table;
}

std::string refusal(std::vector<std::string> arguments) {
  Values values;
  try {
    (void)make_table(values).parse(arguments);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OptionTable, takes_every_spelling_of_a_number_and_a_switch) {
  for (const auto& [arguments, seqs, chunked] :
       {std::tuple{std::vector<std::string>{"--max-num-seqs", "8"}, 8, true},
        {std::vector<std::string>{"--max_num_seqs=2k"}, 2000, true},
        {std::vector<std::string>{"--max-num_seqs=2K"}, 2048, true},
        {std::vector<std::string>{"--max-num-seqs=1.5k"}, 1500, true},
        {std::vector<std::string>{"--no-enable-chunked-prefill"}, 256, false},
        {std::vector<std::string>{"--no_enable_chunked_prefill"}, 256, false},
        {std::vector<std::string>{"--enable-chunked-prefill=false"}, 256, false},
        {std::vector<std::string>{"--no-enable-chunked-prefill", "--enable-chunked-prefill"},
         256,
         true}}) {
    Values values;
    (void)make_table(values).parse(arguments);
    EXPECT_EQ(values.seqs, seqs) << arguments[0];
    EXPECT_EQ(values.chunked, chunked) << arguments[0];
  }
}

TEST(OptionTable, several_values_never_swallow_the_model) {
  Values values;
  const OptionTable table = make_table(values);
  EXPECT_EQ(table.parse(std::vector<std::string>{
                "m", "--served-model-name", "a", "b", "--max-num-seqs", "3"}),
            std::vector<std::string>{"m"});
  EXPECT_EQ(values.names, (std::vector<std::string>{"a", "b"}));
  values.names.clear();
  EXPECT_EQ(table.parse(std::vector<std::string>{"--served-model-name", "a", "m"}),
            std::vector<std::string>{"m"});
  EXPECT_EQ(values.names, std::vector<std::string>{"a"});
  values.names.clear();  // forgets the names of the first parse
  EXPECT_EQ(table.parse(std::vector<std::string>{"--served-model-name", "1", "2", "m"}),
            std::vector<std::string>{"m"});
  EXPECT_EQ(values.names, (std::vector<std::string>{"1", "2"}));
}

TEST(OptionTable, a_dotted_form_keeps_the_spelling_of_its_path) {
  Values values;
  (void)make_table(values).parse(std::vector<std::string>{
      "-cc.cudagraph_mode", "FULL", "--compilation_config.a.b_c=1", "-cc={}"});
  EXPECT_EQ(values.fields, (std::vector<std::string>{"cudagraph_mode=FULL", "a.b_c=1", "{}"}));
}

TEST(OptionTable, refuses_by_name_and_suggests_the_nearest) {
  EXPECT_NE(refusal({"--max-num-seq", "1"}).find("did you mean --max-num-seqs?"),
            std::string::npos);
  EXPECT_NE(refusal({"--no-enable-chunked-prefil"}).find("did you mean --enable-chunked-prefill?"),
            std::string::npos);
  EXPECT_NE(refusal({"--max-num-seqs"}).find("needs a value"), std::string::npos);
  EXPECT_NE(refusal({"--max-num-seqs", "many"}).find("'many'"), std::string::npos);
  EXPECT_NE(refusal({"--enable-chunked-prefill=2"}).find("not true or false"), std::string::npos);
  EXPECT_NE(refusal({"--no-max-num-seqs"}).find("unknown option"), std::string::npos);
  EXPECT_NE(refusal({"--max-num-seqs.x", "1"}).find("unknown option"), std::string::npos);
}

TEST(OptionTable, help_finds_by_group_by_name_and_by_word) {
  Values values;
  const OptionTable table = make_table(values);
  const auto help = [&](std::string word) {
    return table.help_text(std::vector<std::string>{"--help=" + word});
  };
  EXPECT_NE(help("scheduler").find("--max-num-seqs"), std::string::npos);
  EXPECT_EQ(help("scheduler").find("--served-model-name"), std::string::npos);
  EXPECT_NE(help("max_num").find("--max-num-seqs"), std::string::npos);
  EXPECT_NE(help("prompts").find("--enable-chunked-prefill"), std::string::npos);
  EXPECT_NE(help("nothing-like-it").find("Nothing matches"), std::string::npos);
  EXPECT_NE(help("format:completion").find("--no-enable-chunked-prefill\t"), std::string::npos);
}

TEST(ManualPage, text_cannot_become_a_macro) {
  ManualPage page("reprise test MODEL [options]", "What it does. More.");
  page.add_entry("--a-b", ".so /etc/passwd\n'x \\n \"q\"");
  const std::string& text = page.text();
  EXPECT_TRUE(text.starts_with(".TH REPRISE\\-TEST 1 ")) << text;
  EXPECT_NE(text.find("\n\\&.so /etc/passwd\n\\&'x \\en \\(dqq\\(dq\n"), std::string::npos) << text;
}

// Combines valid words and invalid words at random.
TEST(OptionTable, no_arguments_whatever_do_more_than_be_refused) {
  const OptionTable table = serve_options();
  std::vector<std::string> words = {"--",
                                    "-",
                                    "",
                                    "=",
                                    "--=",
                                    "-.",
                                    "--.",
                                    "-cc.",
                                    "-O",
                                    "-O9",
                                    "--no-",
                                    "--no-no-",
                                    "1K",
                                    "{",
                                    "[]",
                                    "\xff",
                                    "--a.b.c=d"};
  for (const Option& option : table.options()) {
    words.push_back("--" + option.name);
    words.push_back("--no-" + option.name + "=1");
  }
  std::mt19937 random(7);
  int num_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> arguments(random() % 6);
    for (std::string& argument : arguments) {
      argument = words[random() % words.size()];
      if (random() % 4 == 0)
        argument.insert(random() % (argument.size() + 1), 1, static_cast<char>(random() % 256));
    }
    try {
      (void)table.scan(arguments);
      (void)table.help_text(arguments);
    } catch (const InvalidArgument& error) {
      ++num_refused;
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(num_refused, 500);
}

}  // namespace
}  // namespace reprise::cli
