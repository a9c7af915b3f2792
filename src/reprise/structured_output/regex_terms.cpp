#include "reprise/structured_output/regex_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

/// About 100 bytes each.
constexpr size_t kMaxTerms = 200'000;

}  // namespace

size_t RegexTerms::Hash::operator()(const Term& term) const {
  size_t hash = static_cast<size_t>(term.kind) * 0x9E3779B97F4A7C15U +
                static_cast<size_t>(term.least) * 31 + static_cast<size_t>(term.most) * 17;
  for (const TermId part : term.parts) hash = (hash ^ static_cast<size_t>(part)) * 0x100000001B3U;
  return hash ^ (hash >> 29U);
}

RegexTerms::RegexTerms(WorkLimit* limit) : limit_(limit) {
  (void)make({Kind::nothing, false});
  (void)make({Kind::empty_text, true});
  (void)make({Kind::everything, true});
  (void)make({Kind::text_end, false});
}

TermId RegexTerms::make(Term term) {
  const auto [found, is_new] = ids_.try_emplace(term, static_cast<TermId>(terms_.size()));
  if (!is_new) return found->second;
  if (terms_.size() >= kMaxTerms) {
    throw InvalidArgument(
        "the pattern is too complex: it has too many states; use fewer counted repetitions, or "
        "smaller counts");
  }
  count_work(1 + term.parts.size() / 8);
  terms_.push_back(std::move(term));
  return found->second;
}

TermId RegexTerms::set(const CodePoints& characters) {
  if (characters.empty()) return TermId::nothing;
  size_t number = 0;
  while (number < sets_.size() && sets_[number].ranges() != characters.ranges()) ++number;
  count_work(1 + number / 8);
  if (number == sets_.size()) sets_.push_back(characters);
  return make({Kind::set, false, static_cast<int64_t>(number)});
}

TermId RegexTerms::joined(TermId first, TermId then) {
  if (first == TermId::nothing || then == TermId::nothing) return TermId::nothing;
  if (first == TermId::empty_text) return then;
  if (then == TermId::empty_text) return first;
  if (then == TermId::everything && matches_empty(first)) return TermId::everything;
  // Nests to the right: (ab)c becomes a(bc).
  std::vector<TermId> firsts;
  while (at(first).kind == Kind::joined) {
    firsts.push_back(at(first).parts[0]);
    first = at(first).parts[1];
  }
  firsts.push_back(first);
  while (!firsts.empty()) {
    const TermId part = firsts.back();
    firsts.pop_back();
    const bool matches = matches_empty(part) && matches_empty(then);
    then = make({Kind::joined, matches, 0, -1, {part, then}});
  }
  return then;
}

TermId RegexTerms::any_of(std::vector<TermId> terms) {
  std::vector<TermId> flat;
  bool matches = false;
  for (const TermId term : terms) {
    if (term == TermId::nothing) continue;
    if (term == TermId::everything) return term;
    if (at(term).kind == Kind::any_of) {
      flat.insert(flat.end(), at(term).parts.begin(), at(term).parts.end());
    } else {
      flat.push_back(term);
    }
    matches = matches || matches_empty(term);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  const bool is_redundant = !flat.empty() && flat[0] == TermId::empty_text &&
                            std::any_of(flat.begin() + 1, flat.end(), [this](TermId term) {
                              return matches_empty(term);
                            });
  if (is_redundant) flat.erase(flat.begin());
  if (flat.empty()) return TermId::nothing;
  if (flat.size() == 1) return flat[0];
  return make({Kind::any_of, matches, 0, -1, std::move(flat)});
}

TermId RegexTerms::all_of(std::vector<TermId> terms) {
  std::vector<TermId> flat;
  bool matches = true;
  for (const TermId term : terms) {
    if (term == TermId::nothing) return term;
    if (term == TermId::everything) continue;
    if (at(term).kind == Kind::all_of) {
      flat.insert(flat.end(), at(term).parts.begin(), at(term).parts.end());
    } else {
      flat.push_back(term);
    }
    matches = matches && matches_empty(term);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return TermId::everything;
  if (flat.size() == 1) return flat[0];
  if (flat[0] == TermId::empty_text) return matches ? flat[0] : TermId::nothing;
  return make({Kind::all_of, matches, 0, -1, std::move(flat)});
}

TermId RegexTerms::complement(TermId term) {
  if (term == TermId::nothing) return TermId::everything;
  if (term == TermId::everything) return TermId::nothing;
  if (at(term).kind == Kind::complement) return at(term).parts[0];
  const bool matches = !matches_empty(term);
  return make({Kind::complement, matches, 0, -1, {term}});
}

TermId RegexTerms::repeated(TermId term, int64_t least, std::optional<int64_t> most) {
  if (most == 0 || term == TermId::empty_text) return TermId::empty_text;
  if (term == TermId::nothing) return least == 0 ? TermId::empty_text : term;
  if (term == TermId::everything) return term;
  if (matches_empty(term)) least = 0;
  if (least == 1 && most == 1) return term;
  const bool is_star = at(term).kind == Kind::repeated && at(term).least == 0 && at(term).most < 0;
  if (is_star) return term;
  const bool matches = least == 0;
  return make({Kind::repeated, matches, least, most.value_or(-1), {term}});
}

TermId RegexTerms::recursive(bool matches_empty) {
  meanings_.push_back(TermId::nothing);
  return make({Kind::recursive, matches_empty, static_cast<int64_t>(meanings_.size()) - 1});
}

void RegexTerms::define(TermId name, TermId meaning) {
  meanings_[static_cast<size_t>(at(name).least)] = meaning;
}

std::optional<RegexTerms::RepeatedSet> RegexTerms::as_repeated_set(TermId term) const {
  if (at(term).kind != Kind::joined || at(term).parts[1] != TermId::text_end) return {};
  const TermId repeated = at(term).parts[0];
  const Term& body = at(repeated);
  if (body.kind != Kind::repeated || at(body.parts[0]).kind != Kind::set) return {};
  return RepeatedSet{
      body.parts[0], body.least, body.most < 0 ? std::nullopt : std::optional<int64_t>(body.most)};
}

void RegexTerms::fix_classes() {
  constexpr uint32_t kEndOfCodePoints = CodePoints::kLast + 1;
  std::vector<uint32_t> cuts{0, 0xD800, 0xE000};
  for (const CodePoints& set : sets_) {
    for (const auto& [first, last] : set.ranges()) {
      cuts.push_back(first);
      cuts.push_back(last + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::map<std::vector<bool>, uint16_t> classes{{std::vector<bool>(sets_.size()), 0}};
  std::vector<size_t> next_range(sets_.size());
  for (const uint32_t first : cuts) {
    if (first >= kEndOfCodePoints) break;
    std::vector<bool> is_in(sets_.size());
    for (size_t set = 0; set < sets_.size(); ++set) {
      const auto& ranges = sets_[set].ranges();
      size_t& next = next_range[set];
      while (next < ranges.size() && ranges[next].second < first) ++next;
      is_in[set] = next < ranges.size() && ranges[next].first <= first;
    }
    count_work(1 + sets_.size() / 8);
    const auto number = static_cast<uint16_t>(classes.size());
    if (number > 4096) throw InvalidArgument("the pattern has too many sets of characters");
    class_ranges_.emplace_back(first, classes.try_emplace(std::move(is_in), number).first->second);
  }
  num_classes_ = classes.size() + 1;
  is_in_set_.assign(sets_.size(), std::vector<bool>(num_classes_));
  for (const auto& [is_in, number] : classes) {
    for (size_t set = 0; set < sets_.size(); ++set) is_in_set_[set][number] = is_in[set];
  }
}

TermId RegexTerms::derivative(TermId term, size_t character_class) {
  const uint64_t key = (static_cast<uint64_t>(term) << 16U) | character_class;
  if (const auto found = derivatives_.find(key); found != derivatives_.end()) return found->second;
  const TermId result = compute_derivative(term, character_class);
  derivatives_.emplace(key, result);
  return result;
}

TermId RegexTerms::derivative_of_joined(TermId id, size_t character_class) {
  std::vector<TermId> ways;
  for (;;) {
    if (at(id).kind != Kind::joined) {
      ways.push_back(derivative(id, character_class));
      break;
    }
    const TermId first = at(id).parts[0];
    const TermId then = at(id).parts[1];
    ways.push_back(joined(derivative(first, character_class), then));
    if (!matches_empty(first)) break;
    id = then;
  }
  return any_of(std::move(ways));
}

TermId RegexTerms::compute_derivative(TermId id, size_t character_class) {
  // Copied, because making new terms moves the old ones.
  const Term term = at(id);
  const auto of_parts = [&] {
    std::vector<TermId> parts;
    for (const TermId part : term.parts) parts.push_back(derivative(part, character_class));
    return parts;
  };
  const bool is_end = character_class + 1 == num_classes_;
  switch (term.kind) {
    case Kind::nothing:
    case Kind::empty_text:
      return TermId::nothing;
    case Kind::everything:
      return id;
    case Kind::text_end:
      return is_end ? TermId::empty_text : TermId::nothing;
    case Kind::set:
      return is_in_set_[static_cast<size_t>(term.least)][character_class] ? TermId::empty_text
                                                                          : TermId::nothing;
    case Kind::joined:
      return derivative_of_joined(id, character_class);
    case Kind::any_of:
      return any_of(of_parts());
    case Kind::all_of:
      return all_of(of_parts());
    case Kind::complement:
      return complement(derivative(term.parts[0], character_class));
    case Kind::repeated: {
      const TermId first = derivative(term.parts[0], character_class);
      if (first == TermId::nothing) return first;
      const auto most = term.most < 0 ? std::nullopt : std::optional<int64_t>(term.most - 1);
      return joined(first, repeated(term.parts[0], std::max<int64_t>(term.least - 1, 0), most));
    }
    case Kind::recursive:
      return derivative(meanings_[static_cast<size_t>(term.least)], character_class);
  }
  return TermId::nothing;
}

}  // namespace reprise::structured_output
