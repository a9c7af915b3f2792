#include "reprise/cli/structured_options.h"

#include <array>
#include <string>
#include <string_view>

#include "reprise/cli/config_field.h"
#include "reprise/output_parsers/reasoning_parser.h"

namespace reprise::cli {
namespace {

// There is one backend; it takes the place of vLLM's xgrammar.
constexpr auto kBackends = std::to_array<std::string_view>({"auto", "xgrammar"});
constexpr auto kStructuredFields = std::to_array<std::string_view>({"backend",
                                                                    "disable_additional_properties",
                                                                    "disable_any_whitespace",
                                                                    "disable_fallback",
                                                                    "enable_in_reasoning",
                                                                    "reasoning_parser"});

void assign_structured_field(server::ServerOptions& options, const ConfigField& field) {
  if (field.name == "backend") {
    (void)field.one_of(kBackends);
  } else if (field.name == "disable_any_whitespace") {
    options.requests.disable_any_whitespace = field.boolean();
  } else if (field.name == "disable_fallback") {
    (void)field.boolean();  // there is no second backend to fall back to
  } else if (field.name == "disable_additional_properties") {
    if (field.boolean())
      field.refuse("false: the schema decides whether an object may have further members");
  } else if (field.name == "enable_in_reasoning") {
    if (field.boolean()) field.refuse("false: the form begins after the reasoning");
  } else if (field.name == "reasoning_parser") {
    if (field.value.is_null() || field.value == "") return;
    set_reasoning_parser(options.answers, field.text());
  } else {
    field.refuse_name(kStructuredFields);
  }
}

}  // namespace

void set_reasoning_parser(server::AnswerReaderOptions& answers, std::string_view name) {
  if (name != server::kParserByTemplate) (void)output_parsers::reasoning_format(name);
  answers.reasoning_parser = name;
}

void add_structured_options(OptionTable& table, server::ServerOptions& options) {
  table.add(json_config_option(
      {.name = "structured-outputs-config",
       .group = kServer,
       .help = "Settings of structured outputs: backend (auto or xgrammar, which are the same), "
               "disable_any_whitespace (JSON without spaces and line breaks of the model's "
               "choice), reasoning_parser.",
       .default_text = "{}",
       .example = R"({"backend": "auto"})"},
      [&options](const ConfigField& field) { assign_structured_field(options, field); },
      [&options] {
        return Json{{"backend", "auto"},
                    {"disable_any_whitespace", options.requests.disable_any_whitespace}};
      }));
  table.add({.name = "guided-decoding-backend",
             .group = kServer,
             .value_name = "NAME",
             .help = "Older name of --structured-outputs-config.backend.",
             .default_text = "auto",
             .apply =
                 [&options](std::string_view value) {
                   const Json name = value;
                   assign_structured_field(
                       options,
                       {.flag = "--guided-decoding-backend", .name = "backend", .value = name});
                 },
             .choices = {kBackends.begin(), kBackends.end()}});
  table.add_switch("guided-decoding-disable-any-whitespace",
                   kServer,
                   "Older name of --structured-outputs-config.disable_any_whitespace.",
                   options.requests.disable_any_whitespace);
}

}  // namespace reprise::cli
