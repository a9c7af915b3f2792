#include "reprise/chat_template/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace reprise::chat_template {
namespace {

TemplateError error_of(std::string_view source, const Json& variables = Json::object()) {
  try {
    const std::string output = ChatTemplate::parse(source).render_variables(variables);
    ADD_FAILURE() << "rendered: " << output;
  } catch (const TemplateError& error) {
    return error;
  }
  return {TemplateError::Cause::runtime, {}, ""};
}

Json one_message(std::string_view role, std::string_view content) {
  return Json::array({{{"role", role}, {"content", content}}});
}

TEST(ChatTemplate, syntax_errors_name_line_and_column) {
  const auto error = error_of("first\n  {{ 1 + }}");
  EXPECT_EQ(error.cause(), TemplateError::Cause::syntax);
  EXPECT_EQ(error.line(), 2);
  EXPECT_EQ(error.column(), 10);
  EXPECT_FALSE(error.is_limit());
  EXPECT_EQ(error.code(), "template_error");
}

TEST(ChatTemplate, runtime_errors_name_line_and_column) {
  const auto error = error_of("{% set x = none %}\n\n{{ x.role.name }}");
  EXPECT_EQ(error.cause(), TemplateError::Cause::runtime);
  EXPECT_EQ(error.line(), 3);
  EXPECT_GT(error.column(), 3);
  EXPECT_EQ(error.message(), "None has no attribute 'role'");
}

TEST(ChatTemplate, raise_exception_carries_the_message_of_the_template) {
  const auto error = error_of("{{ raise_exception('roles must ' ~ 'alternate') }}");
  EXPECT_EQ(error.cause(), TemplateError::Cause::raised);
  EXPECT_EQ(error.message(), "roles must alternate");
}

TEST(ChatTemplate, options_become_the_variables_that_transformers_defines) {
  const auto chat_template = ChatTemplate::parse(
      "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} "
      "{{ bos_token is defined }} {{ eos_token }} {{ enable_thinking }}");
  RenderOptions options;
  options.add_generation_prompt = true;
  options.eos_token = "</s>";
  options.extra = {{"enable_thinking", false}};
  EXPECT_EQ(chat_template.render(one_message("user", "x"), options),
            "True True True False </s> False");
}

TEST(ChatTemplate, extra_variables_win_over_the_named_options) {
  RenderOptions options;
  options.bos_token = "<s>";
  options.extra = {{"bos_token", "<x>"}, {"add_generation_prompt", true}};
  EXPECT_EQ(ChatTemplate::parse("{{ bos_token }}{{ add_generation_prompt }}")
                .render(Json::array(), options),
            "<x>True");
}

TEST(ChatTemplate, malformed_options_are_invalid_arguments) {
  const auto chat_template = ChatTemplate::parse("x");
  EXPECT_THROW((void)chat_template.render(Json::object(), {}), InvalidArgument);
  EXPECT_THROW((void)chat_template.render(Json::array({1}), {}), InvalidArgument);
  RenderOptions options;
  options.extra = {{"messages", Json::array()}};
  EXPECT_THROW((void)chat_template.render(Json::array(), options), InvalidArgument);
  options.extra = Json::array();
  EXPECT_THROW((void)chat_template.render(Json::array(), options), InvalidArgument);
}

TEST(ChatTemplate, messages_keep_the_order_of_their_members) {
  const Json messages = Json::array({{{"role", "user"}, {"zeta", 1}, {"alpha", 2}}});
  EXPECT_EQ(ChatTemplate::parse("{{ messages[0] | tojson }}").render(messages, {}),
            R"({"role": "user", "zeta": 1, "alpha": 2})");
}

TEST(ChatTemplate, mentions_tells_which_variables_a_template_reads) {
  const auto chat_template =
      ChatTemplate::parse("{% if enable_thinking %}{{ messages[0].tools }}{% endif %}");
  EXPECT_TRUE(chat_template.mentions("enable_thinking"));
  EXPECT_TRUE(chat_template.mentions("messages"));
  EXPECT_FALSE(chat_template.mentions("tools"));
}

TEST(ChatTemplate, strftime_now_shows_the_given_time) {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  EXPECT_EQ(
      ChatTemplate::parse("{{ strftime_now('%d %b %Y') }}").render_variables(Json::object(), now),
      "26 Jul 2024");
}

TEST(ChatTemplate, strftime_now_without_a_given_time_shows_this_year) {
  const auto year =
      ChatTemplate::parse("{{ strftime_now('%Y') }}").render_variables(Json::object());
  EXPECT_GE(std::stoi(year), 2024);
}

TEST(ChatTemplate, renders_the_same_from_many_threads_at_once) {
  const auto chat_template = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% macro m(x) %}<{{ x }}>{% endmacro %}"
      "{% for message in messages %}{% set ns.n = ns.n + 1 %}{{ m(message.content) }}{% endfor %}"
      "{{ ns.n }}");
  std::vector<std::string> outputs(8);
  std::vector<std::thread> threads;
  for (auto& output : outputs) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) output = chat_template.render(one_message("user", "hi"), {});
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& output : outputs) EXPECT_EQ(output, "<hi>1");
}

TEST(ChatTemplate, copies_share_the_parsed_template) {
  const auto copy = [] {
    const auto original = ChatTemplate::parse("{{ 'a' ~ 1 }}");
    return original;
  }();
  EXPECT_EQ(copy.render_variables(Json::object()), "a1");
}

TEST(ChatTemplate, the_global_dict_and_namespace_can_be_shadowed_by_variables) {
  EXPECT_EQ(ChatTemplate::parse("{{ range }}").render_variables({{"range", "mine"}}), "mine");
}

TEST(ChatTemplate, integers_beyond_64_bits_are_errors_and_never_wrong_numbers) {
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}").message(),
            "integer result does not fit into 64 bits");
  EXPECT_EQ(error_of("{{ 99999999999999999999 }}").cause(), TemplateError::Cause::syntax);
  EXPECT_EQ(error_of("{{ '99999999999999999999' | int }}").cause(), TemplateError::Cause::runtime);
  EXPECT_THROW((void)ChatTemplate::parse("{{ x }}").render_variables({{"x", UINT64_MAX}}),
               InvalidArgument);
}

TEST(ChatTemplate, tags_that_need_other_templates_are_refused_by_name) {
  for (const char* source : {"{% include 'x' %}",
                             "{% extends 'x' %}",
                             "{% block x %}{% endblock %}",
                             "{% import 'x' as y %}",
                             "{% from 'x' import y %}"}) {
    EXPECT_NE(error_of(source).message().find("not supported in chat templates"), std::string::npos)
        << source;
  }
  EXPECT_EQ(error_of("{% for x in y recursive %}{% endfor %}").message(),
            "recursive loops are not supported");
  EXPECT_EQ(error_of("{{ 'a' | urlize }}").message(),
            "the filter 'urlize' is not supported by this engine");
}

TEST(ChatTemplate, text_that_is_not_utf8_is_refused_in_templates_and_survives_in_variables) {
  EXPECT_EQ(error_of("a\xFF").cause(), TemplateError::Cause::syntax);
  Json variables = Json::object();
  variables["x"] = std::string("a\xFFz");
  EXPECT_EQ(ChatTemplate::parse("{{ x }}{{ x | length }}").render_variables(variables), "a\xFFz3");
}

}  // namespace
}  // namespace reprise::chat_template
