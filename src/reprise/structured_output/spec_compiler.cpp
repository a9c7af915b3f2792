#include "reprise/structured_output/spec_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/structured_output/regex_dialect.h"
#include "reprise/structured_output/structural_tag.h"

namespace reprise::structured_output {
namespace {

NodeId plain_text(AnswerProgram& program,
                  const std::string& pattern,
                  const TextSettings& settings) {
  RegexTerms terms(settings.limit);
  const TermId term = regex_term(terms, pattern, Anchoring::whole_text, Reading::narrow);
  auto automaton = std::make_shared<Automaton>(Automaton::of(terms, term));
  if (automaton->start() == Automaton::kDead) {
    throw InvalidArgument("no text matches the regular expression");
  }
  automaton->group_states(settings.max_token_characters);
  program.texts.push_back({.automaton = std::move(automaton), .is_json = false});
  return program.add(AnswerNode::Kind::text, program.texts.size() - 1);
}

NodeId one_of(AnswerProgram& program, std::vector<std::string> choices) {
  if (choices.empty()) throw InvalidArgument("choice has no entries");
  if (choices.size() > kMaxChoices) {
    throw InvalidArgument(
        fmt::format("choice has {} entries, more than {}", choices.size(), kMaxChoices));
  }
  size_t num_bytes = 0;
  for (const std::string& choice : choices) {
    if (choice.empty()) throw InvalidArgument("choice has an empty entry");
    num_bytes += choice.size();
  }
  if (num_bytes > kMaxSpecBytes) {
    throw InvalidArgument(fmt::format("choice has more than {} bytes", kMaxSpecBytes));
  }
  std::sort(choices.begin(), choices.end());
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  program.literals.push_back({std::move(choices)});
  return program.add(AnswerNode::Kind::literals, program.literals.size() - 1);
}

Json parsed(const OutputSpec& spec) {
  const bool is_schema = spec.kind == OutputSpec::Kind::json_schema;
  return parse_json(spec.text,
                    is_schema ? "JSON schema" : "structural tag",
                    {.max_bytes = kMaxSpecBytes, .max_depth = kMaxSchemaDepth});
}

NodeId root_of(AnswerProgram& program, const OutputSpec& spec, const TextSettings& settings) {
  switch (spec.kind) {
    case OutputSpec::Kind::json_object:
      return compile_schema(program, {{"type", "object"}}, settings);
    case OutputSpec::Kind::json_schema:
      return compile_schema(program, parsed(spec), settings);
    case OutputSpec::Kind::regex:
      return plain_text(program, spec.text, settings);
    case OutputSpec::Kind::choice:
      return one_of(program, spec.choices);
    case OutputSpec::Kind::structural_tag:
      return compile_structural_tag(program, parsed(spec), settings);
    case OutputSpec::Kind::grammar:
      break;
  }
  throw InvalidArgument("unknown kind of spec");
}

}  // namespace

std::shared_ptr<const AnswerProgram> compile_spec(const OutputSpec& spec,
                                                  const TextSettings& settings) {
  auto program = std::make_shared<AnswerProgram>();
  program->any_whitespace = spec.any_whitespace;
  program->root = root_of(*program, spec, settings);
  link(*program);
  return program;
}

}  // namespace reprise::structured_output
