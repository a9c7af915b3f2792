#include "reprise/api/text/template_form.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/text/template_messages.h"
#include "reprise/base/error.h"
#include "reprise/chat_template/chat_template.h"
#include "reprise/output_parsers/choose_parsers.h"
#include "reprise/tokenizer/tokenizer_config.h"

namespace reprise::api {
namespace {

using chat_template::ChatTemplate;
using output_parsers::ChosenParsers;

TemplateForm form_of(const std::string& source) {
  return find_template_form(ChatTemplate::parse(source), {});
}

ChosenParsers parsers_of(const std::string& source) {
  return choose_parsers(sample_template(source, ChatTemplate::parse(source), form_of(source), {}));
}

/// The prompt that a template makes from a conversation of the OpenAI API.
std::string prompt(const std::string& source,
                   const Json& messages,
                   ContentFormat format = ContentFormat::automatic) {
  const ChatTemplate parsed = ChatTemplate::parse(source);
  return parsed.render(messages_for_template(messages, find_template_form(parsed, {}), format), {});
}

/// A template that writes [role] and then `body` for each message.
std::string each(const std::string& body) {
  return "{% for m in messages %}[{{ m.role }}]" + body + "{% endfor %}";
}

const std::string kPlain = each("{{ m.content }}");
const std::string kLists = each("{% for part in m.content %}({{ part.text }}){% endfor %}");
const std::string kBoth = each(
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "({{ part.text }}){% endfor %}{% endif %}");
const std::string kThinks = each("<think>{{ m.reasoning_content }}</think>{{ m.content }}");
const std::string kThinkingParts = each(
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'thinking' %}[THINK]{{ part.thinking }}[/THINK]{% else %}"
    "{{ part.text }}{% endif %}{% endfor %}{% endif %}");
const std::string kTextArguments = each(
    "{% for c in m.tool_calls or [] %}<{{ c.function.name + ' ' + c.function.arguments }}>"
    "{% endfor %}{{ m.content }}");
const std::string kObjectArguments = each(
    "{% for c in m.tool_calls or [] %}<{{ c.function.name }}{% for k, v in "
    "c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}>{% endfor %}{{ m.content }}");
const std::string kEitherArguments = each(
    "{% for c in m.tool_calls or [] %}<{{ c.function.name }} {% if c.function.arguments is "
    "string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments | tojson }}"
    "{% endif %}>{% endfor %}{{ m.content }}");

Json parts(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back({{"type", "text"}, {"text", text}});
  return list;
}

Json message(std::string_view role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

Json calling(const Json& arguments) {
  Json answer = message("assistant", "");
  answer["tool_calls"] = Json::array(
      {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}}});
  return answer;
}

TEST(TemplateForm, content_gets_the_form_that_the_template_shows) {
  const Json messages = {message("system", "a"), message("user", parts({"b", "c"}))};
  EXPECT_EQ(prompt(kPlain, messages), "[system]a[user]b\nc");
  EXPECT_EQ(prompt(kLists, messages), "[system](a)[user](b)(c)");
  EXPECT_EQ(prompt(kBoth, messages), "[system]a[user](b)(c)");
  EXPECT_EQ(prompt(kBoth, messages, ContentFormat::string), "[system]a[user]b\nc");
  EXPECT_EQ(prompt(kBoth, messages, ContentFormat::openai), "[system](a)[user](b)(c)");
}

TEST(TemplateForm, each_role_has_its_form) {
  const std::string only_users = each(
      "{% if m.role == 'user' %}{% for part in m.content %}({{ part.text }}){% endfor %}"
      "{% else %}{{ m.content }}{% endif %}");
  const Json messages = {message("system", parts({"s", "t"})),
                         message("user", "b"),
                         message("assistant", parts({"c", "d"})),
                         message("user", parts({"e"}))};
  EXPECT_EQ(prompt(only_users, messages), "[system]s\nt[user](b)[assistant]c\nd[user](e)");
}

TEST(TemplateForm, a_template_that_reads_only_the_first_part_gets_one) {
  const std::string first = each("{{ m.content[0].text + '.' }}");
  const Json messages = {message("user", "a"), message("user", parts({"b", "c"}))};
  EXPECT_EQ(prompt(first, messages), "[user]a.[user]b\nc.");
}

TEST(TemplateForm, reasoning_reaches_the_template_under_every_name) {
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) {
    Json answer = message("assistant", "b");
    answer[name] = "why";
    for (const char* read : {"reasoning", "reasoning_content", "thinking"}) {
      const std::string source = each(std::string("{{ m.content }}{% if m.") + read + " %}({{ m." +
                                      read + " }}){% endif %}");
      EXPECT_EQ(prompt(source, {message("user", "a"), answer}), "[user]a[assistant]b(why)")
          << name << " as " << read;
    }
  }
}

TEST(TemplateForm, parts_of_thought_are_reasoning_where_the_template_takes_it) {
  for (const char* type : {"thinking", "reasoning"}) {
    const Json answer =
        message("assistant", {{{"type", type}, {type, "why"}}, {{"type", "text"}, {"text", "b"}}});
    EXPECT_EQ(prompt(kThinks, Json::array({answer})), "[assistant]<think>why</think>b");
    EXPECT_EQ(prompt(kThinkingParts, Json::array({answer})), "[assistant][THINK]why[/THINK]b");
    EXPECT_EQ(prompt(kPlain, Json::array({answer})), "[assistant]why\nb") << "nothing is lost";
  }
  const Json inner = message("assistant", {{{"type", "reasoning"}, {"text", "why"}}});
  EXPECT_EQ(prompt(kThinks, Json::array({inner})), "[assistant]<think>why</think>");
  // Some clients send the same thoughts in two places.
  Json twice = inner;
  twice["reasoning"] = "why";
  EXPECT_EQ(prompt(kThinks, Json::array({twice})), "[assistant]<think>why</think>");
  twice["reasoning"] = "first";
  EXPECT_EQ(prompt(kThinks, Json::array({twice})), "[assistant]<think>first\nwhy</think>");
}

TEST(TemplateForm, a_template_that_prints_unknown_parts_takes_no_thinking_parts) {
  const std::string prints = each(
      "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{% if "
      "m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text "
      "if part.type == 'text' else part | tojson }}{% endfor %}{% endif %}");
  const Json answer =
      message("assistant",
              {{{"type", "thinking"}, {"thinking", "why"}}, {{"type", "text"}, {"text", "b"}}});
  EXPECT_EQ(prompt(prints, Json::array({answer})), "[assistant]<think>why</think>b");
}

TEST(TemplateForm, reasoning_becomes_a_part_where_the_template_takes_only_parts) {
  Json answer = message("assistant", "b");
  answer["reasoning"] = "why";
  EXPECT_EQ(prompt(kThinkingParts, Json::array({answer})), "[assistant][THINK]why[/THINK]b");
}

TEST(TemplateForm, arguments_get_the_form_that_the_template_takes) {
  for (const Json& arguments : {Json{{"a", 1}}, Json("{\"a\": 1}")}) {
    const Json messages = {message("user", "q"), calling(arguments)};
    EXPECT_EQ(prompt(kObjectArguments, messages), "[user]q[assistant]<f a=1>");
    EXPECT_EQ(prompt(kEitherArguments, messages), "[user]q[assistant]<f {\"a\": 1}>");
    EXPECT_EQ(prompt(kTextArguments, messages),
              arguments.is_string() ? "[user]q[assistant]<f {\"a\": 1}>"
                                    : "[user]q[assistant]<f {\"a\":1}>");
  }
  for (const Json& none : {Json(), Json(""), Json::object()}) {
    EXPECT_EQ(prompt(kTextArguments, Json::array({calling(none)})), "[assistant]<f {}>");
    EXPECT_EQ(prompt(kObjectArguments, Json::array({calling(none)})), "[assistant]<f>");
  }
}

TEST(TemplateForm, an_earlier_answer_that_was_cut_in_its_arguments_does_not_end_the_conversation) {
  const Json messages = Json::array({calling("{\"a\": 1, \"b")});
  EXPECT_EQ(prompt(kTextArguments, messages), "[assistant]<f {\"a\": 1, \"b>");
  EXPECT_EQ(prompt(kEitherArguments, messages), "[assistant]<f {\"a\": 1, \"b>");
  EXPECT_EQ(prompt(kObjectArguments, messages), "[assistant]<f>") << "as vLLM";
}

const std::string kNoLateSystem =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}"
    "{% endfor %}";

TEST(TemplateForm, messages_of_the_system_stay_where_the_template_shows_them) {
  const Json messages = {message("user", "q"), message("system", "late"), message("user", "r")};
  EXPECT_EQ(prompt(kPlain, messages), "[user]q[system]late[user]r");
  const Json in_front = {message("system", "s"), message("user", "q")};
  EXPECT_EQ(prompt(kNoLateSystem, in_front), "[system]s[user]q");
}

TEST(TemplateForm, a_late_message_of_the_system_becomes_text_of_its_neighbour) {
  EXPECT_EQ(prompt(kNoLateSystem,
                   {message("system", "s"),
                    message("system", "t"),
                    message("user", "q"),
                    message("system", parts({"a", "b"})),
                    message("user", "r"),
                    message("assistant", "x"),
                    message("system", "c"),
                    message("user", "y")}),
            "[system]s\n\nt[user]q\n\na\nb\n\nr[assistant]x[user]c\n\ny");
  EXPECT_EQ(prompt(kNoLateSystem,
                   {message("user", "q"),
                    message("assistant", "x"),
                    message("system", "c"),
                    message("assistant", "z"),
                    message("system", "d")}),
            "[user]q[assistant]x[user]c[assistant]z[user]d");
}

TEST(TemplateForm, a_moved_message_is_apart_where_the_template_writes_parts_without_a_space) {
  const std::string lists =
      "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{% for part in m.content %}"
      "({{ part.text }}){% endfor %}{% endfor %}";
  EXPECT_EQ(prompt(lists, {message("user", parts({"a", "b"})), message("system", "s")}),
            "[user](a)(b\n\ns)");
  EXPECT_EQ(prompt(lists, {message("system", "s"), message("user", parts({"a", "b"}))}),
            "[user](s\n\na)(b)");
  EXPECT_EQ(prompt(lists, {message("assistant", "x"), message("system", "s")}),
            "[assistant](x)[user](s)");
}

TEST(TemplateForm, a_template_that_drops_the_system_gets_it_from_the_user) {
  const std::string drops =
      "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt(drops, {message("system", "s"), message("user", "q")}), "[user]s\n\nq");
  EXPECT_EQ(prompt(drops, Json::array({message("system", "s")})), "[user]s");
}

TEST(TemplateForm, messages_of_another_shape_are_refused_by_their_place) {
  const auto refusal = [](const Json& messages) -> std::string {
    try {
      (void)messages_for_template(messages, {});
      return "";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  EXPECT_NE(refusal(Json::array({1})).find("messages[0]"), std::string::npos);
  EXPECT_NE(refusal(Json::array({message("user", 3)})).find("messages[0].content"),
            std::string::npos);
  const Json image = message("user", {{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}});
  EXPECT_NE(refusal({message("user", "a"), image}).find("messages[1].content[0]"),
            std::string::npos);
  Json thoughts = message("assistant", "a");
  thoughts["reasoning"] = 3;
  EXPECT_NE(refusal(Json::array({thoughts})).find("messages[0].reasoning"), std::string::npos);
  EXPECT_EQ(refusal(Json::array({message("user", {"a", "b"})})), "");
}

TEST(TemplateForm, a_template_that_never_ends_is_tried_once) {
  const std::string slow =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  const TemplateForm form = form_of(slow);  // fifteen times the limit would take seconds
  EXPECT_TRUE(form.user.takes_text);
  EXPECT_TRUE(form.takes_object_arguments);
}

/// ChatML that writes `call` for each call of an answer.
std::string with_calls(const std::string& call) {
  return "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ "
         "m.role }}\n"
         "{{ m.content }}{% for c in m.tool_calls or [] %}" +
         call +
         "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>"
         "assistant\n{% endif %}";
}

TEST(ChooseParsers, the_parser_that_finds_the_call_in_the_text_of_the_template_is_chosen) {
  const std::string json =
      "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ "
      "c.function.arguments | tojson }}}";
  EXPECT_EQ(parsers_of(with_calls("<tool_call>\n" + json + "\n</tool_call>")).tool_call_parser,
            "hermes");
  EXPECT_EQ(parsers_of(with_calls("[TOOL_CALLS] [" + json + "]")).tool_call_parser, "mistral");
  EXPECT_EQ(parsers_of(with_calls(json)).tool_call_parser, "llama3_json");
  EXPECT_EQ(parsers_of(with_calls("<other>" + json + "</other>")).tool_call_parser, "");
  // The mark is put together from pieces, as in DeepSeek-V3.2's template.
  const std::string dsml =
      "{% set d = '｜DSML｜' %}" +
      with_calls(
          "<{{ d }}function_calls>\n<{{ d }}invoke name=\"{{ c.function.name }}\">\n{% for k, v "
          "in c.function.arguments.items() %}<{{ d }}parameter name=\"{{ k }}\" string=\"{{ "
          "'true' if v is string else 'false' }}\">{{ v if v is string else v | tojson }}</{{ "
          "d }}parameter>\n{% endfor %}</{{ d }}invoke>\n</{{ d }}function_calls>");
  EXPECT_EQ(parsers_of(dsml).tool_call_parser, "deepseek_v32");
  // The recipient is put together from pieces, as in GPT-OSS's template.
  EXPECT_EQ(parsers_of(with_calls("<|channel|>commentary to={{ 'functions.' + c.function.name }}"
                                  "<|message|>{{ c.function.arguments | tojson }}<|call|>"))
                .tool_call_parser,
            "openai");
  EXPECT_EQ(parsers_of(with_calls("<tool_call>{{ c.function.name }}\n{% for k, v in "
                                  "c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
                                  "<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>"))
                .tool_call_parser,
            "glm45");
}

TEST(ChooseParsers, a_template_without_earlier_calls_is_known_by_its_instructions) {
  const std::string instructs =
      "{% set open = 'tool_call' %}{% if tools %}Answer <{{ open }}>JSON</{{ open }}>{% endif %}";
  EXPECT_EQ(parsers_of(instructs + kPlain).tool_call_parser, "hermes");
  EXPECT_EQ(parsers_of("{% if tools %}<|tool_list_start|>{{ tools }}<|tool_list_end|>{% endif %}" +
                       kPlain)
                .tool_call_parser,
            "lfm2");
  EXPECT_EQ(parsers_of(kPlain), ChosenParsers{});
}

TEST(ChooseParsers, the_marks_around_the_reasoning_choose_its_parser) {
  const auto thinks = [](const std::string& start, const std::string& end) {
    return "{% for m in messages %}<s>{{ m.role }}\n{% if m.reasoning_content %}" + start +
           "{{ m.reasoning_content }}" + end + "{% endif %}{{ m.content }}</s>\n{% endfor %}";
  };
  EXPECT_EQ(parsers_of(thinks("<think>\n", "\n</think>\n\n")).reasoning_parser, "qwen3");
  EXPECT_EQ(parsers_of(thinks("[THINK]", "[/THINK]")).reasoning_parser, "mistral");
  EXPECT_EQ(parsers_of(thinks("<seed:think>", "</seed:think>")).reasoning_parser, "seed_oss");
  EXPECT_EQ(parsers_of(thinks("<|channel>thought\n", "<channel|>")).reasoning_parser, "gemma4");
  EXPECT_EQ(parsers_of(thinks("<|channel|>analysis<|message|>",
                              "<|end|><|start|>assistant<|channel|>final<|message|>"))
                .reasoning_parser,
            "openai_gptoss");
  EXPECT_EQ(parsers_of(thinks("<muse>", "</muse>")).reasoning_parser, "");
  EXPECT_EQ(parsers_of(thinks("<think>", "</think>") +
                       "{% if add_generation_prompt %}assistant<think>\n{% endif %}")
                .reasoning_parser,
            "deepseek_r1");
}

}  // namespace
}  // namespace reprise::api
