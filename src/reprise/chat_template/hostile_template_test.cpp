// A model folder, and so its template, may come from an attacker.
#include <gtest/gtest.h>
#include <pthread.h>

#include <ctime>
#include <stop_token>
#include <string>
#include <thread>

#include "reprise/chat_template/chat_template.h"

namespace reprise::chat_template {
namespace {

std::string repeat(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

// The test measures processor time, because the machine may be busy with other tests.
[[maybe_unused]] double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Parses and renders. The template must reach a limit within the time of the test.
void expect_limit(const std::string& source, const Json& variables = Json::object()) {
  const std::string shown = source.substr(0, 80);
  [[maybe_unused]] const auto start = std::clock();
  try {
    const std::string output = ChatTemplate::parse(source).render_variables(variables);
    ADD_FAILURE() << shown << "\nrendered " << output.size() << " bytes";
  } catch (const TemplateError& error) {
    EXPECT_TRUE(error.is_limit()) << shown << "\n" << error.what();
    EXPECT_EQ(error.code(), "template_limit");
  }
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds_since(start), 2.0) << shown;
#endif
}

// Parses and renders; the test fails on every outcome except success and TemplateError.
std::string render_or_empty(const std::string& source) {
  try {
    return ChatTemplate::parse(source).render_variables(Json::object());
  } catch (const TemplateError&) {
    return "";
  }
}

TEST(HostileTemplate, F25_a_self_calling_macro_is_stopped) {
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  expect_limit(
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
  expect_limit("{% macro m(x=m()) %}{% endmacro %}{{ m() }}");
  expect_limit(
      "{% macro m() %}{{ caller() }}{% endmacro %}"
      "{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% endmacro %}{{ n() }}");
}

TEST(HostileTemplate, ends_soon_after_it_is_no_longer_wanted) {
  // Without the stop request the loop would run until the step limit. The request usually comes
  // after the loop has begun.
  const auto hungry = ChatTemplate::parse(
      "{% for i in range(100000) %}{% for j in range(100000) %}{{ j }}{% endfor %}{% endfor %}");
  std::stop_source client;
  const WorkLimit work(WorkLimit::Clock::time_point::max(), client.get_token(), {});
  std::jthread leaving([&client] { client.request_stop(); });
  EXPECT_THROW((void)hungry.render_variables(Json::object(), {}, work), Abandoned);
}

TEST(HostileTemplate, F25_ten_thousand_nested_parentheses_are_refused) {
  expect_limit("{{ " + repeat("(", 10000) + "1" + repeat(")", 10000) + " }}");
  expect_limit("{{ " + repeat("(", 10000));
  expect_limit("{{ " + repeat("[", 10000) + repeat("]", 10000) + " }}");
  expect_limit("{{ " + repeat("{1:", 10000) + "1" + repeat("}", 10000) + " }}");
  expect_limit("{{ " + repeat("-", 10000) + "1 }}");
  expect_limit("{{ " + repeat("not ", 10000) + "1 }}");
  expect_limit("{{ " + repeat("1 if 1 else ", 10000) + "1 }}");
  expect_limit("{{ " + repeat("x(", 10000) + repeat(")", 10000) + " }}");
  expect_limit("{{ " + repeat("x[", 10000) + "1" + repeat("]", 10000) + " }}");
  expect_limit("{{ x" + repeat("|upper", 10000) + " }}");
  expect_limit("{{ x" + repeat(".x", 10000) + " }}");
  expect_limit("{{ x" + repeat("()", 10000) + " }}");
  expect_limit("{{ x" + repeat(" if 1", 10000) + " }}");
  expect_limit("{% set " + repeat("(", 10000) + "x" + repeat(")", 10000) + " = 1 %}");
  expect_limit(repeat("{% if 1 %}", 10000));
  expect_limit(repeat("{% for x in y %}", 10000));
  expect_limit(repeat("{% macro x() %}", 10000));
}

TEST(HostileTemplate, long_flat_chains_are_no_nesting) {
  EXPECT_EQ(render_or_empty("{{ 1" + repeat(" + 1", 5000) + " }}"), "5001");
  EXPECT_EQ(render_or_empty("{{ ''" + repeat(" ~ 'a'", 5000) + " }}"), repeat("a", 5000));
  EXPECT_EQ(render_or_empty("{{ 0" + repeat(" or 0", 5000) + " }}"), "0");
  EXPECT_EQ(
      render_or_empty("{% if 0 %}a" + repeat("{% elif 0 %}b", 5000) + "{% else %}c{% endif %}"),
      "c");
}

TEST(HostileTemplate, F25_a_huge_range_is_refused) {
  expect_limit("{{ range(10**9) }}");
  expect_limit("{% for i in range(10**9) %}{% endfor %}");
  expect_limit("{{ range(-9223372036854775807, 9223372036854775807) | length }}");
  expect_limit("{{ range(100001) | length }}");
  EXPECT_EQ(render_or_empty("{{ range(100000) | length }}"), "100000");
}

TEST(HostileTemplate, F25_a_huge_repetition_is_refused) {
  expect_limit("{{ 'a' * 10**9 }}");
  expect_limit("{{ 10**9 * 'a' }}");
  expect_limit("{{ 'ab' * 9223372036854775807 }}");
  expect_limit("{{ [1] * 10**9 }}");
  expect_limit("{{ (1, 2) * 9223372036854775807 }}");
  EXPECT_EQ(render_or_empty("{{ '' * 9223372036854775807 }}"), "");
  EXPECT_EQ(render_or_empty("{{ [] * 9223372036854775807 }}"), "[]");
}

TEST(HostileTemplate, endless_work_runs_out_of_steps) {
  expect_limit("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  expect_limit("{% for a in range(100000) %}{{ range(100000) | list | length }}{% endfor %}");
  expect_limit("{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{{ 'b' in s }}{% endfor %}");
  expect_limit(
      "{% set s = 'a' * 1000000 %}{% set t = 'a' * 1000000 %}"
      "{% for a in range(100000) %}{{ s == t }}{% endfor %}");
  expect_limit(
      "{% set s = 'é' * 1000000 %}{% for a in range(100000) %}{{ s[999999] }}{% endfor %}");
  expect_limit("{% set l = range(100000)|list %}{% for a in l %}{{ 5.5 in l }}{% endfor %}");
}

TEST(HostileTemplate, searching_for_a_hostile_needle_is_linear) {
  const auto start = std::clock();
  (void)render_or_empty(
      "{% set h = 'a' * 4000000 %}{% set n = 'a' * 2000000 ~ 'b' %}"
      "{{ n in h }}{{ h.find(n) }}{{ h.rfind('b' ~ n) }}{{ h.replace(n, '') | length }}"
      "{{ h.split(n) | length }}{{ h.rsplit(n) | length }}{{ h.count(n) }}");
  EXPECT_LT(seconds_since(start), 5.0);
}

TEST(HostileTemplate, doubling_text_stops_at_the_output_cap) {
  expect_limit(
      "{% set ns = namespace(s='a') %}"
      "{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(s='a') %}"
      "{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(s='aa') %}"
      "{% for i in range(100) %}{% set ns.s = ns.s.replace('a', ns.s) %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(s='aa') %}"
      "{% for i in range(100) %}{% set ns.s = ns.s.join(ns.s) %}{% endfor %}");
  expect_limit("{{ 'a'.ljust(10**9) }}");
  expect_limit("{{ '%1000000000d' % 1 }}");
  expect_limit("{{ '%.1000000000f' % 1 }}");
  expect_limit("{{ '%*d' % (10**9, 1) }}");
  expect_limit("{{ '{:1000000000}'.format(1) }}");
  expect_limit("{{ '{:.999999999f}'.format(1.0) }}");
  expect_limit("{{ 'a' | center(10**9) }}");
  expect_limit("{{ 'a\nb' | indent(10**9) }}");
  expect_limit("{{ [1] | tojson(indent=10**9) }}");
  expect_limit("{{ [1] | batch(10**9, 'x') | list }}");
  expect_limit("{{ [1] | slice(10**9) | list }}");
}

TEST(HostileTemplate, output_beyond_the_cap_is_refused) {
  expect_limit("{% set s = 'a' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}");
  expect_limit(
      "{% set x %}{% set s = 'a' * 1000000 %}"
      "{% for i in range(100) %}{{ s }}{% endfor %}{% endset %}");
}

TEST(HostileTemplate, many_large_values_run_out_of_memory_budget) {
  expect_limit(
      "{% set ns = namespace(l=[]) %}{% set s = 'a' * 8000000 %}"
      "{% for i in range(100) %}{% set ns.l = ns.l + [s ~ i] %}{% endfor %}");
  expect_limit(
      "{% for i in range(100000) %}{% for j in range(100) %}{% set x = namespace() %}"
      "{% endfor %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(l=[0]) %}"
      "{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}");
}

TEST(HostileTemplate, values_that_nest_deeper_and_deeper_are_refused) {
  expect_limit(
      "{% set ns = namespace(x=1) %}"
      "{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(x=1) %}"
      "{% for i in range(100000) %}{% set ns.x = {'k': ns.x} %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(x=1) %}"
      "{% for i in range(100000) %}{% set ns.x = [ns.x].index %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(x=1) %}"
      "{% for i in range(100000) %}{% set ns.x = [ns.x] | reverse %}{% endfor %}");
}

TEST(HostileTemplate, values_that_share_parts_do_not_explode_when_walked) {
  const std::string twice =
      "{% set a = namespace(x=[1]) %}{% set b = namespace(x=[1]) %}"
      "{% for i in range(90) %}{% set a.x = [a.x, a.x] %}"
      "{% set b.x = [b.x, b.x] %}{% endfor %}";
  expect_limit(twice + "{{ a.x == b.x }}");
  expect_limit(twice + "{{ a.x }}");
}

TEST(HostileTemplate, objects_that_hold_themselves_end_without_a_leak) {
  (void)render_or_empty("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.l = [ns] %}x");
  (void)render_or_empty(
      "{% set ns = namespace() %}{% for i in [ns] %}{% set ns.loop = loop %}"
      "{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}x");
  expect_limit("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}");
}

TEST(HostileTemplate, chains_of_finished_loops_end_without_deep_recursion) {
  EXPECT_EQ(render_or_empty("{% set ns = namespace(l=none) %}{% for i in range(100000) %}"
                            "{% for x in [ns.l] %}{% set ns.l = loop %}{% endfor %}{% endfor %}ok"),
            "ok");
}

TEST(HostileTemplate, evaluation_fits_into_a_small_native_stack) {
  // The deepest expression in the deepest block in the deepest recursion of a macro, on 1 MiB of
  // stack.
  const std::string deep = "{% macro m(x) %}" + repeat("{% if 1 %}", 100) + "{{ " +
                           repeat("(0 or ", 50) + "m(x)" + repeat(")", 50) + " }}" +
                           repeat("{% endif %}", 100) + "{% endmacro %}{{ m(1) }}";
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
#if defined(__SANITIZE_ADDRESS__)
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{8} << 20), 0);
#else
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{1} << 20), 0);
#endif
  pthread_t thread;
  const auto body = [](void* source) -> void* {
    expect_limit(*static_cast<std::string*>(source));
    return nullptr;
  };
  std::string source = deep;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &source), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(HostileTemplate, F26_no_host_object_can_be_reached) {
  for (const char* name : {"__class__",
                           "__init__",
                           "__globals__",
                           "__mro__",
                           "mro",
                           "__dict__",
                           "__self__",
                           "__subclasses__",
                           "__builtins__",
                           "_private"}) {
    for (const char* object : {"''",
                               "1",
                               "1.5",
                               "none",
                               "true",
                               "[]",
                               "{}",
                               "(1,)",
                               "range",
                               "namespace",
                               "namespace()",
                               "''.upper",
                               "range(3)",
                               "dict",
                               "raise_exception",
                               "[1]|map('string')"}) {
      const std::string access = std::string("(") + object + ")." + name;
      EXPECT_EQ(render_or_empty("{{ " + access + " }}"), "") << access;
      EXPECT_EQ(render_or_empty("{{ (" + std::string(object) + ")['" + name + "'] }}"), "");
      EXPECT_EQ(render_or_empty("{{ (" + std::string(object) + ")|attr('" + name + "') }}"), "");
      EXPECT_EQ(render_or_empty("{{ " + access + " is defined }}"), "False") << access;
      EXPECT_THROW(
          (void)ChatTemplate::parse("{{ " + access + ".x }}").render_variables(Json::object()),
          TemplateError)
          << access;
      EXPECT_THROW(
          (void)ChatTemplate::parse("{{ " + access + "() }}").render_variables(Json::object()),
          TemplateError)
          << access;
    }
  }
}

TEST(HostileTemplate, a_source_that_is_too_long_is_refused) {
  expect_limit(std::string((size_t{1} << 20) + 1, 'a'));
}

TEST(HostileTemplate, variables_that_nest_too_deep_are_refused) {
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json::array({std::move(deep)});
  expect_limit("{{ x }}", {{"x", deep}});
}

TEST(HostileTemplate, truncated_templates_never_crash) {
  const std::string source =
      "{%- macro m(a, b='x', *c) -%}{{ a|default('y')|join(', ', attribute='z') }}{%- endmacro -%}"
      "{# c #}{% raw %}{{ r }}{% endraw %}{% for k, v in {'a': [1, 2.5e3, \"\\u00e9\"]}.items() if "
      "v "
      "is not none recursive %}{{ loop.index ~ v[::-1][0] ** 2 // 3 }}{% else %}é{% endfor %}"
      "{% set ns.x, y = 1, 'a' 'b' %}{% call(q) m(*[1], **{}) %}{{ q }}{% endcall %}";
  for (size_t size = 0; size <= source.size(); ++size) {
    (void)render_or_empty(source.substr(0, size));
    (void)render_or_empty(source.substr(size));
    std::string flipped = source;
    if (size < source.size()) flipped[size] = static_cast<char>(flipped[size] ^ 0x11);
    (void)render_or_empty(flipped);
  }
}

}  // namespace
}  // namespace reprise::chat_template
