#include "reprise/structured_output/structural_tag.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/regex_dialect.h"
#include "reprise/structured_output/text_language.h"

namespace reprise::structured_output {
namespace {

class TagWriter {
 public:
  TagWriter(AnswerProgram& program, const TextSettings& settings)
      : program_(&program), settings_(&settings) {}

  /// `is_last`: no part of the answer comes after this one.
  NodeId format(const Json& given, bool is_last, int depth) {
    if (depth > kMaxSchemaDepth) throw InvalidArgument("a structural tag nests too deep");
    const std::string type = text_member(given, "type");
    if (type == "const_string") return literal({text_member(given, "value")});
    if (type == "json_schema") {
      return compile_schema(*program_, member(given, "json_schema"), *settings_);
    }
    if (type == "any_text") return any_text(is_last);
    if (type == "regex") return regex(text_member(given, "pattern"), is_last);
    if (type == "sequence") return sequence(list(given, "elements"), is_last, depth);
    if (type == "or") {
      std::vector<NodeId> ways;
      for (const Json& one : list(given, "elements"))
        ways.push_back(format(one, is_last, depth + 1));
      return choice(std::move(ways));
    }
    if (type == "tag") return tag(given, "", is_last, depth);
    if (type == "triggered_tags") return triggered_tags(given, is_last, depth);
    if (type == "tags_with_separator") return separated_tags(given, is_last, depth);
    throw InvalidArgument(
        fmt::format("the format '{}' of a structural tag is not supported; const_string, "
                    "json_schema, any_text, "
                    "regex, sequence, or, tag, triggered_tags and tags_with_separator are",
                    type));
  }

 private:
  static const Json& member(const Json& given, const char* name) {
    if (!given.is_object() || !given.contains(name)) {
      throw InvalidArgument(fmt::format("a format of a structural tag needs `{}`", name));
    }
    return given[name];
  }

  static std::string text_member(const Json& given, const char* name) {
    const Json& value = member(given, name);
    if (!value.is_string()) throw InvalidArgument(fmt::format("`{}` must be a string", name));
    return value.get<std::string>();
  }

  static const Json& list(const Json& given, const char* name) {
    const Json& value = member(given, name);
    if (!value.is_array() || value.empty()) {
      throw InvalidArgument(fmt::format("`{}` must be an array that is not empty", name));
    }
    return value;
  }

  static std::vector<std::string> texts(const Json& value, const char* name) {
    std::vector<std::string> all;
    for (const Json& one : value.is_array() ? value : Json::array({value})) {
      if (!one.is_string()) throw InvalidArgument(fmt::format("`{}` must be strings", name));
      all.push_back(one.get<std::string>());
    }
    if (all.empty()) throw InvalidArgument(fmt::format("`{}` must not be empty", name));
    return all;
  }

  static std::vector<std::string> trigger_texts(const Json& given) {
    const Json& value = member(given, "triggers");
    const bool is_list =
        value.is_array() && !value.empty() && std::ranges::all_of(value, [](const Json& trigger) {
          return trigger.is_string() && !trigger.get_ref<const std::string&>().empty();
        });
    if (!is_list) throw InvalidArgument("`triggers` must be a list of texts that are not empty");
    return value.get<std::vector<std::string>>();
  }

  NodeId choice(std::vector<NodeId> ways) {
    if (ways.size() == 1) return ways[0];
    program_->choices.push_back(std::move(ways));
    return program_->add(AnswerNode::Kind::choice, program_->choices.size() - 1);
  }

  NodeId in_sequence(std::vector<NodeId> parts) {
    if (parts.size() == 1) return parts[0];
    program_->sequences.push_back(std::move(parts));
    return program_->add(AnswerNode::Kind::sequence, program_->sequences.size() - 1);
  }

  NodeId leaf(RegexTerms& terms, TermId term, bool is_last) {
    return leaf(terms, term, is_last ? TextLeaf::After::nothing : TextLeaf::After::anywhere);
  }

  NodeId leaf(RegexTerms& terms, TermId term, TextLeaf::After after) {
    auto automaton = std::make_shared<Automaton>(Automaton::of(terms, term));
    if (automaton->start() == Automaton::kDead) {
      throw InvalidArgument("no text fits a part of the structural tag");
    }
    automaton->group_states(settings_->max_token_characters);
    program_->texts.push_back(
        {.automaton = std::move(automaton), .is_json = false, .after = after});
    return program_->add(AnswerNode::Kind::text, program_->texts.size() - 1);
  }

  NodeId nothing(bool is_last) {
    RegexTerms terms(settings_->limit);
    return leaf(terms, TermId::text_end, is_last);
  }

  NodeId literal(std::vector<std::string> all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const bool has_empty = all[0].empty();
    if (has_empty) all.erase(all.begin());
    if (all.empty()) return nothing(false);
    program_->literals.push_back({std::move(all)});
    const NodeId texts = program_->add(AnswerNode::Kind::literals, program_->literals.size() - 1);
    return has_empty ? choice({texts, nothing(false)}) : texts;
  }

  NodeId any_text(bool is_last) {
    RegexTerms terms(settings_->limit);
    return leaf(terms, length_term(terms, 0, {}), is_last);
  }

  NodeId regex(const std::string& pattern, bool is_last) {
    RegexTerms terms(settings_->limit);
    return leaf(terms, regex_term(terms, pattern, Anchoring::whole_text, Reading::narrow), is_last);
  }

  NodeId sequence(const Json& elements, bool is_last, int depth) {
    std::vector<NodeId> parts;
    for (size_t i = 0; i < elements.size(); ++i) {
      parts.push_back(format(elements[i], is_last && i + 1 == elements.size(), depth + 1));
    }
    return in_sequence(std::move(parts));
  }

  /// Texts of `any` that contain none of `ends`, each followed by one of `ends`.
  TermId up_to(RegexTerms& terms, const std::vector<std::string>& ends) {
    const TermId any = terms.repeated(every_character(terms), 0, {});
    std::vector<TermId> ways;
    for (const std::string& end : ends) ways.push_back(literal_term(terms, end));
    const TermId last = terms.any_of(ways);
    return terms.all_of(
        {terms.joined(any, last), terms.complement(terms.joined(any, inside(terms, ends, 1)))});
  }

  /// Texts that contain one of `texts`, then at least `num_more` characters and the end.
  TermId inside(RegexTerms& terms, const std::vector<std::string>& texts, int64_t num_more) {
    std::vector<TermId> ways;
    for (const std::string& text : texts) {
      TermId term = length_term(terms, num_more, {});
      std::vector<uint32_t> code_points;
      for (size_t at = 0; at < text.size();) code_points.push_back(next_code_point(text, at));
      for (size_t i = code_points.size(); i-- > 0;) {
        term = terms.joined(terms.set(CodePoints{{code_points[i], code_points[i]}}), term);
      }
      ways.push_back(term);
    }
    return terms.any_of(std::move(ways));
  }

  static TermId every_character(RegexTerms& terms) {
    return terms.set(CodePoints{{0, CodePoints::kLast}});
  }

  NodeId tag(const Json& given, const std::string& begun, bool is_last, int depth) {
    const std::string begin = text_member(given, "begin").substr(begun.size());
    const std::vector<std::string> ends = texts(member(given, "end"), "end");
    const Json& content = member(given, "content");
    std::vector<NodeId> parts;
    if (!begin.empty()) parts.push_back(literal({begin}));
    const bool has_end =
        std::none_of(ends.begin(), ends.end(), [](const std::string& end) { return end.empty(); });
    if (has_end && content.is_object() && content.value("type", Json()) == "any_text") {
      RegexTerms terms(settings_->limit);
      parts.push_back(leaf(terms, up_to(terms, ends), is_last));
      return in_sequence(std::move(parts));
    }
    if (has_end && content.is_object() && content.value("type", Json()) == "regex") {
      RegexTerms terms(settings_->limit);
      std::vector<TermId> ways;
      for (const std::string& end : ends) ways.push_back(literal_term(terms, end));
      const TermId then = terms.any_of(std::move(ways));
      parts.push_back(
          leaf(terms, regex_term_before(terms, text_member(content, "pattern"), then), is_last));
      return in_sequence(std::move(parts));
    }
    parts.push_back(format(content, is_last && !has_end, depth + 1));
    if (has_end || ends.size() > 1) parts.push_back(literal(ends));
    return in_sequence(std::move(parts));
  }

  NodeId triggered_tags(const Json& given, bool is_last, int depth) {
    const std::vector<std::string> triggers = trigger_texts(given);
    const bool at_least_one = given.value("at_least_one", Json(false)) == true;
    const bool stops = given.value("stop_after_first", Json(false)) == true;
    RegexTerms free_terms(settings_->limit);
    const TermId any = free_terms.repeated(every_character(free_terms), 0, {});
    const TermId free = free_terms.all_of(
        {length_term(free_terms, 0, {}),
         free_terms.complement(free_terms.joined(any, inside(free_terms, triggers, 0)))});
    const NodeId end = leaf(free_terms, free, is_last);
    // The loop refers to itself, so it is made first.
    program_->choices.emplace_back();
    const size_t loop_index = program_->choices.size() - 1;
    const NodeId loop = program_->add(AnswerNode::Kind::choice, loop_index);
    std::vector<NodeId> ways;
    for (const std::string& trigger : triggers) {
      std::vector<NodeId> tags;
      for (const Json& one : list(given, "tags")) {
        if (!text_member(one, "begin").starts_with(trigger)) continue;
        tags.push_back(tag(one, trigger, is_last && stops, depth + 1));
      }
      if (tags.empty()) continue;
      RegexTerms terms(settings_->limit);
      const TermId before =
          terms.joined(terms.repeated(every_character(terms), 0, {}), literal_term(terms, trigger));
      const TermId until = terms.all_of({up_to(terms, triggers), before});
      std::vector<NodeId> parts{leaf(terms, until, TextLeaf::After::at_end),
                                choice(std::move(tags))};
      if (!stops) parts.push_back(loop);
      ways.push_back(in_sequence(std::move(parts)));
    }
    if (ways.empty()) throw InvalidArgument("no `begin` of the tags begins with one of `triggers`");
    std::vector<NodeId> with_end = ways;
    with_end.push_back(end);
    program_->choices[loop_index] = std::move(with_end);
    return at_least_one ? choice(std::move(ways)) : loop;
  }

  NodeId separated_tags(const Json& given, bool is_last, int depth) {
    const std::string separator = text_member(given, "separator");
    const bool at_least_one = given.value("at_least_one", Json(false)) == true;
    const bool stops = given.value("stop_after_first", Json(false)) == true;
    std::vector<NodeId> tags;
    for (const Json& one : list(given, "tags"))
      tags.push_back(tag(one, "", is_last && stops, depth + 1));
    const NodeId one = choice(std::move(tags));
    NodeId all = one;
    if (!stops) {
      program_->choices.emplace_back();
      const size_t rest_index = program_->choices.size() - 1;
      const NodeId rest = program_->add(AnswerNode::Kind::choice, rest_index);
      const NodeId more = in_sequence({literal({separator}), one, rest});
      const NodeId none = nothing(is_last);
      program_->choices[rest_index] = {none, more};
      all = in_sequence({one, rest});
    }
    return at_least_one ? all : choice({nothing(is_last), all});
  }

  AnswerProgram* program_;
  const TextSettings* settings_;
};

Json from_structures(const Json& tag) {
  if (!tag["structures"].is_array() || !tag.contains("triggers")) {
    throw InvalidArgument(
        "a structural tag needs `format`, or an array `structures` and `triggers`");
  }
  Json tags = Json::array();
  for (const Json& structure : tag["structures"]) {
    if (!structure.is_object() || !structure.contains("begin") || !structure.contains("end")) {
      throw InvalidArgument("every entry of `structures` needs begin, schema and end");
    }
    tags.push_back(
        {{"begin", structure["begin"]},
         {"content",
          {{"type", "json_schema"}, {"json_schema", structure.value("schema", Json::object())}}},
         {"end", structure["end"]}});
  }
  return {{"type", "triggered_tags"}, {"triggers", tag["triggers"]}, {"tags", std::move(tags)}};
}

}  // namespace

NodeId compile_structural_tag(AnswerProgram& program,
                              const Json& tag,
                              const TextSettings& settings) {
  if (!tag.is_object()) throw InvalidArgument("a structural tag must be an object");
  const Json format =
      tag.contains("structures") ? from_structures(tag) : tag.value("format", Json());
  if (format.is_null()) throw InvalidArgument("a structural tag needs `format`");
  return TagWriter(program, settings).format(format, true, 0);
}

}  // namespace reprise::structured_output
