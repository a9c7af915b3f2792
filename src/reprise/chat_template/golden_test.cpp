// The expected texts are those of jinja2 with transformers' settings for the same templates
// (tests/goldens/chat_templates/make_chat_template_goldens.py).
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "reprise/base/json.h"
#include "reprise/chat_template/chat_template.h"
#include "tests/support/source_dir.h"

namespace reprise::chat_template {
namespace {

std::string read_file(const std::string& name) {
  const std::string path = source_dir() + "/tests/goldens/chat_templates/" + name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

const Json& golden() {
  static const Json json = parse_json(read_file("golden.json"), "golden.json");
  return json;
}

std::tm golden_now() {
  std::tm now{};
  ::strptime(golden()["now"].get<std::string>().c_str(), "%Y-%m-%dT%H:%M:%S", &now);
  return now;
}

TEST(ChatTemplateGolden, snippets_render_what_jinja2_renders) {
  const Json& snippets = golden()["snippets"];
  const std::tm now = golden_now();
  EXPECT_GE(snippets["rendering"].size(), 600u);
  for (const Json& snippet : snippets["rendering"]) {
    const auto source = snippet["source"].get<std::string>();
    try {
      const std::string output =
          ChatTemplate::parse(source).render_variables(snippets["variables"], now);
      EXPECT_EQ(output, snippet["output"].get<std::string>()) << "template: " << source;
    } catch (const TemplateError& error) {
      ADD_FAILURE() << "template: " << source << "\nexpected: " << snippet["output"] << "\n"
                    << error.what();
    }
  }
}

TEST(ChatTemplateGolden, snippets_fail_where_jinja2_fails) {
  const Json& snippets = golden()["snippets"];
  EXPECT_GE(snippets["failing"].size(), 200u);
  for (const Json& snippet : snippets["failing"]) {
    const auto source = snippet.get<std::string>();
    try {
      const std::string output =
          ChatTemplate::parse(source).render_variables(snippets["variables"]);
      ADD_FAILURE() << "template: " << source << "\nrendered: " << output;
    } catch (const TemplateError& error) {
      EXPECT_GT(error.line(), 0) << source;
      EXPECT_GT(error.column(), 0) << source;
    }
  }
}

RenderOptions options_of(const Json& json) {
  RenderOptions options;
  options.add_generation_prompt = json.value("add_generation_prompt", false);
  if (json.contains("tools")) options.tools = json["tools"];
  if (json.contains("documents")) options.documents = json["documents"];
  if (json.contains("bos_token")) options.bos_token = json["bos_token"].get<std::string>();
  if (json.contains("eos_token")) options.eos_token = json["eos_token"].get<std::string>();
  if (json.contains("extra")) options.extra = json["extra"];
  options.now = golden_now();
  return options;
}

TEST(ChatTemplateGolden, conversations_render_what_transformers_renders_in_every_family_style) {
  int rendered = 0;
  int raised = 0;
  for (const Json& golden_case : golden()["rendered"]) {
    const auto name = golden_case["template"].get<std::string>();
    const auto conversation = golden_case["conversation"].get<std::string>();
    const auto option_name = golden_case["options"].get<std::string>();
    SCOPED_TRACE(name + ", " + conversation + ", " + option_name);
    const auto chat_template = ChatTemplate::parse(read_file("templates/" + name));
    const RenderOptions options = options_of(golden()["options"][option_name]);
    try {
      const std::string output =
          chat_template.render(golden()["conversations"][conversation], options);
      ++rendered;
      if (golden_case.contains("raises")) {
        ADD_FAILURE() << "jinja2 raises " << golden_case["raises"] << ", rendered " << output;
      } else {
        EXPECT_EQ(output, golden_case["output"].get<std::string>());
      }
    } catch (const TemplateError& error) {
      ++raised;
      EXPECT_TRUE(golden_case.contains("raises")) << error.what();
      if (error.cause() == TemplateError::Cause::raised) {
        EXPECT_EQ(error.message(), golden_case["raises"].get<std::string>());
      }
    }
  }
  EXPECT_GT(rendered, 300);
  EXPECT_GT(raised, 30);
}

}  // namespace
}  // namespace reprise::chat_template
