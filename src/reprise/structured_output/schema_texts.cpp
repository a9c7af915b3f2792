// The part of SchemaWriter that writes texts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "reprise/structured_output/schema_writer.h"

namespace reprise::structured_output {
namespace {

/// A pattern that begins with `^(?=.{1,253}$)` limits the length. A counter does this with fewer
/// states, so the limits are taken out of the pattern. An optional part before the `$` is left out.
void take_lengths_of_patterns(Json& rules) {
  const auto found = rules.find("pattern");
  if (found == rules.end()) return;
  Json patterns = Json::array();
  for (const Json& one : found->is_array() ? *found : Json::array({*found})) {
    constexpr std::string_view kBegin = "^(?=.{";
    if (!one.is_string() || !one.get_ref<const std::string&>().starts_with(kBegin)) {
      patterns.push_back(one);
      continue;
    }
    const auto& pattern = one.get_ref<const std::string&>();
    int least = 0;
    int most = 0;
    int num_read = 0;
    const char* const counts = pattern.c_str() + kBegin.size();
    const bool has_counts =
        std::sscanf(counts, "%6d,%6d}%n", &least, &most, &num_read) == 2 && num_read > 0;
    std::string_view rest = has_counts ? std::string_view(counts + num_read) : std::string_view();
    if (rest.starts_with("\\.?")) rest.remove_prefix(3);
    if (!rest.starts_with("$)")) {
      patterns.push_back(one);
      continue;
    }
    patterns.push_back(fmt::format("^(?=.*$){}", rest.substr(2)));
    rules["minLength"] = std::max<int64_t>(count_member(rules, "minLength").value_or(0), least);
    rules["maxLength"] = std::min<int64_t>(count_member(rules, "maxLength").value_or(most), most);
  }
  rules["pattern"] = std::move(patterns);
}

}  // namespace

/// Where a text has only one spelling, control characters without a short escape cannot be written.
TermId SchemaWriter::writable_texts(RegexTerms& terms) {
  CodePoints controls{{0, 0x1F}};
  controls = controls.without(CodePoints{{'\b', '\n'}, {'\f', '\r'}});
  return terms.joined(terms.repeated(terms.set(controls.complement()), 0, {}), TermId::text_end);
}

int32_t SchemaWriter::add_text(TextLeaf leaf) {
  program_->texts.push_back(std::move(leaf));
  return static_cast<int32_t>(program_->texts.size()) - 1;
}

NodeId SchemaWriter::text(const Json& schema, const Context& context) {
  if (schema.contains("not")) {
    RegexTerms terms(settings_->limit);
    const bool is_regular =
        text_term(terms, validator_->root(), {{"not", schema["not"]}}, Reading::narrow).has_value();
    if (!is_regular) {
      Json rest = schema;
      rest.erase("not");
      return checked(text(rest, context), {{"not", schema["not"]}});
    }
  }
  const int32_t index = add_text(text_leaf(schema, context));
  return program_->add(AnswerNode::Kind::text, static_cast<size_t>(index));
}

TextLeaf SchemaWriter::plain_text(const Context& context) const {
  return {.automaton = settings_->any_text, .allows_all_escapes = !context.keeps_texts_apart};
}

std::shared_ptr<const Automaton> SchemaWriter::automaton_of(RegexTerms& terms, TermId term) const {
  auto automaton = std::make_shared<Automaton>(Automaton::of(terms, term));
  if (automaton->start() == Automaton::kDead) {
    throw NothingIsValid("no text satisfies pattern, format, lengths and names together");
  }
  automaton->group_states(settings_->max_token_characters);
  return automaton;
}

TextLeaf SchemaWriter::text_leaf(const Json& schema, const Context& context) {
  Json rules = schema;
  take_lengths_of_patterns(rules);
  const int64_t least = count_member(rules, "minLength").value_or(0);
  const std::optional<int64_t> most = count_member(rules, "maxLength");
  if (most && *most < least) throw NothingIsValid("maxLength is below minLength");
  rules.erase("minLength");
  rules.erase("maxLength");
  if (rules.contains("pattern") && rules.contains("format")) {
    // `format` is only an annotation, so a pattern that contradicts it has precedence: zod's times
    // have no offset.
    try {
      return ruled_text(rules, least, most, context);
    } catch (const NothingIsValid&) {
      rules.erase("format");
    }
  }
  return ruled_text(rules, least, most, context);
}

TextLeaf SchemaWriter::ruled_text(const Json& rules,
                                  int64_t least,
                                  std::optional<int64_t> most,
                                  const Context& context) {
  RegexTerms terms(settings_->limit);
  const std::optional<TermId> term = text_term(terms, validator_->root(), rules, Reading::narrow);
  if (!term) throw InvalidArgument("a keyword cannot be enforced for texts");
  if (*term == length_term(terms, 0, {})) {
    TextLeaf leaf = plain_text(context);
    if (least == 0 && !most) return leaf;
    leaf.allows_all_escapes = false;
    leaf.least = least;
    leaf.most = most;
    return leaf;
  }
  return limited(terms, *term, least, most);
}

/// A limit on the length becomes a counter where that is exact, and otherwise states of the
/// automaton.
TextLeaf SchemaWriter::limited(RegexTerms& terms,
                               TermId term,
                               int64_t least,
                               std::optional<int64_t> most) {
  TextLeaf leaf;
  if (const auto repeated = terms.as_repeated_set(term)) {
    const TermId star = terms.joined(terms.repeated(repeated->set, 0, {}), TermId::text_end);
    leaf.automaton = automaton_of(terms, terms.all_of({star, writable_texts(terms)}));
    leaf.least = std::max(least, repeated->least);
    leaf.most = !most ? repeated->most : std::min(*most, repeated->most.value_or(*most));
    if (leaf.most && *leaf.most < leaf.least) {
      throw NothingIsValid("no text satisfies the pattern and the lengths together");
    }
    return leaf;
  }
  term = terms.all_of({term, writable_texts(terms)});
  RegexTerms copy = terms;
  leaf.automaton = automaton_of(terms, term);
  const Automaton& automaton = *leaf.automaton;
  const bool implies_least = automaton.rest(automaton.start()) >= least;
  const bool implies_most = !most || (automaton.longest() && *automaton.longest() <= *most);
  if (implies_least && implies_most) return leaf;
  if (automaton.is_smooth() && (!most || automaton.rest(automaton.start()) <= *most)) {
    leaf.least = least;
    leaf.most = most;
    return leaf;
  }
  leaf.automaton = automaton_of(copy, copy.all_of({term, length_term(copy, least, most)}));
  return leaf;
}

}  // namespace reprise::structured_output
