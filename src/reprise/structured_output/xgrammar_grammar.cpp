// Two steps of xgrammar's compiler that this project replaces. This file is compiled into xgrammar.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fsm.h"
#include "grammar_impl.h"
#include "reprise/structured_output/code_points.h"

namespace xgrammar {
namespace {

using reprise::structured_output::CodePoints;
using Rules = std::vector<std::optional<FSMWithStartEnd>>;

/// The largest number that the 16 bits of an edge can hold: the number of a rule, or a place in the
/// table of repetitions.
constexpr size_t kMaxNamed = std::numeric_limits<int16_t>::max();

/// Finds the states of all rules from which an end of their rule can be reached.
class LiveStates {
 public:
  LiveStates(const Rules& rules, const FSM& all)
      : rules_(rules),
        all_(all),
        is_live_(all.GetEdges().size()),
        incoming_(is_live_.size()),
        uses_(rules.size()) {
    for (size_t state = 0; state < is_live_.size(); ++state)
      note_edges(static_cast<int32_t>(state));
    for (size_t rule = 0; rule < rules.size(); ++rule)
      starts_.emplace_back(rules[rule]->GetStart(), rule);
    std::sort(starts_.begin(), starts_.end());
    for (const auto& rule : rules) {
      const std::vector<bool>& ends = rule->GetEnds();
      for (size_t state = 0; state < ends.size(); ++state) {
        if (ends[state]) revive(static_cast<int32_t>(state));
      }
    }
    while (!revived_.empty()) {
      const int32_t state = revived_.back();
      revived_.pop_back();
      for (const auto& [from, edge] : incoming_[static_cast<size_t>(state)]) {
        if (is_passable(edge)) revive(from);
      }
      auto start =
          std::lower_bound(starts_.begin(), starts_.end(), std::pair<int32_t, size_t>(state, 0));
      for (; start != starts_.end() && start->first == state; ++start) {
        for (const auto& [from, edge] : uses_[start->second]) {
          if (is_live(edge.target)) revive(from);
        }
      }
    }
  }

  [[nodiscard]] bool is_live(int32_t state) const { return is_live_[static_cast<size_t>(state)]; }
  [[nodiscard]] bool can_end(int32_t rule) const {
    return is_live(rules_[static_cast<size_t>(rule)]->GetStart());
  }
  /// The rule of an edge; -1: the edge stands for no rule.
  [[nodiscard]] int32_t rule_of(const FSMEdge& edge) const {
    if (edge.IsRepeatRef()) return all_.GetRepeatEdgeInfo(edge.GetAuxIndex()).RuleId();
    return edge.GetRefRuleId();
  }

  [[nodiscard]] bool is_passable(const FSMEdge& edge) const {
    if (edge.IsRepeatRef() && all_.GetRepeatEdgeInfo(edge.GetAuxIndex()).Lower() == 0) return true;
    const int32_t rule = rule_of(edge);
    return rule < 0 || can_end(rule);
  }

 private:
  struct Incoming {
    int32_t from;
    FSMEdge edge;
  };

  void note_edges(int32_t from) {
    for (const FSMEdge& edge : all_.GetEdges(from)) {
      incoming_[static_cast<size_t>(edge.target)].push_back({from, edge});
      const int32_t rule = rule_of(edge);
      if (rule >= 0) uses_[static_cast<size_t>(rule)].push_back({from, edge});
    }
  }

  void revive(int32_t state) {
    if (is_live(state)) return;
    is_live_[static_cast<size_t>(state)] = true;
    revived_.push_back(state);
  }

  const Rules& rules_;
  const FSM& all_;
  std::vector<bool> is_live_;
  std::vector<std::vector<Incoming>> incoming_;     // by target
  std::vector<std::vector<Incoming>> uses_;         // by rule
  std::vector<std::pair<int32_t, size_t>> starts_;  // state and its rule, sorted
  std::vector<int32_t> revived_;  // states whose neighbours are still to be visited
};

/// Copies a rule that is used in only one place into its user. A mask does not know what may follow
/// the end of a rule, so the matcher has to try every token there, and x{1,200} would be 200 nested
/// rules. The rule itself remains, because a look-ahead may still read it.
class RulesUsedOnce {
 public:
  RulesUsedOnce(const Grammar& grammar, Rules& rules, FSM& all)
      : grammar_(grammar), rules_(rules), all_(all), uses_(rules.size()), ends_(rules.size()) {
    const size_t num_states = all.GetEdges().size();
    size_t state = 0;
    for (size_t rule = 0; rule < rules.size(); ++rule) {
      // For each state, up to the last state of the rule.
      std::vector<bool> is_end = rules[rule]->GetEnds();
      for (; state < is_end.size(); ++state) {
        if (is_end[state]) ends_[rule].push_back(static_cast<int32_t>(state));
        note_uses(static_cast<int32_t>(state), rule);
      }
      is_end.resize(num_states);
      rules[rule]->SetEndStates(is_end);
    }
  }

  void merge() {
    std::vector<std::pair<int, size_t>> inner_last;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      if (is_mergeable(rule)) inner_last.emplace_back(depth_of(rule), rule);
    }
    std::sort(inner_last.rbegin(), inner_last.rend());
    for (const auto& [depth, rule] : inner_last) merge(rule);
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      for (const int32_t end : ends_[rule]) rules_[rule]->AddEndState(end);
    }
  }

 private:
  struct Use {
    int count = 0;
    int32_t from = 0;
    FSMEdge edge{};
    size_t user = 0;
  };

  void note_uses(int32_t from, size_t user) {
    for (const FSMEdge& edge : all_.GetEdges(from)) {
      const bool repeats = edge.IsRepeatRef();
      const int32_t rule =
          repeats ? all_.GetRepeatEdgeInfo(edge.GetAuxIndex()).RuleId() : edge.GetRefRuleId();
      if (rule < 0) continue;
      Use& use = uses_[static_cast<size_t>(rule)];
      use = {use.count + (repeats ? 2 : 1), from, edge, user};
    }
  }

  [[nodiscard]] bool is_plain(size_t rule) const {
    const auto& body =
        grammar_->GetGrammarExpr(grammar_->GetRule(static_cast<int32_t>(rule)).body_expr_id);
    return body.type == Grammar::Impl::GrammarExprType::kChoices;
  }

  [[nodiscard]] bool repeats(int32_t state) const {
    const std::vector<FSMEdge>& edges = all_.GetEdges(state);
    return std::any_of(
        edges.begin(), edges.end(), [](const FSMEdge& edge) { return edge.IsRepeatRef(); });
  }

  [[nodiscard]] bool is_mergeable(size_t rule) const {
    const Use& use = uses_[rule];
    if (use.count != 1 || use.user == rule ||
        static_cast<int32_t>(rule) == grammar_->GetRootRuleId())
      return false;
    if (!is_plain(rule) || !is_plain(use.user)) return false;
    // A state that repeats a rule must have no other edge.
    return std::none_of(
        ends_[rule].begin(), ends_[rule].end(), [this](int32_t end) { return repeats(end); });
  }

  /// The nesting depth of a rule. Rules that form an unused circle get an arbitrary depth.
  [[nodiscard]] int depth_of(size_t rule) const {
    int depth = 0;
    while (is_mergeable(rule) && depth < static_cast<int>(rules_.size())) {
      rule = uses_[rule].user;
      ++depth;
    }
    return depth;
  }

  void merge(size_t rule) {
    const Use& use = uses_[rule];
    std::vector<FSMEdge>& edges = all_.GetEdges(use.from);
    std::replace(edges.begin(),
                 edges.end(),
                 use.edge,
                 FSMEdge(FSMEdge::EdgeType::kEpsilon, 0, rules_[rule]->GetStart()));
    std::vector<int32_t>& ends = ends_[use.user];
    const bool is_last = all_.GetEdges(use.edge.target).empty() &&
                         std::find(ends.begin(), ends.end(), use.edge.target) != ends.end();
    if (is_last) {
      ends.insert(ends.end(), ends_[rule].begin(), ends_[rule].end());
    } else {
      for (const int32_t end : ends_[rule]) all_.AddEpsilonEdge(end, use.edge.target);
    }
  }

  const Grammar& grammar_;
  Rules& rules_;
  FSM& all_;
  std::vector<Use> uses_;
  std::vector<std::vector<int32_t>> ends_;
};

}  // namespace

/// The characters of a set of a grammar, which may be a complement, as ranges of one length in
/// UTF-8.
std::vector<std::pair<uint32_t, uint32_t>> CharactersOf(const Grammar::Impl::GrammarExpr& expr) {
  CodePoints set;
  for (int i = 1; i + 1 < expr.size(); i += 2) {
    set.add(static_cast<uint32_t>(expr[i]),
            std::min(static_cast<uint32_t>(expr[i + 1]), CodePoints::kLast));
  }
  if (expr[0] != 0) set = set.complement();
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (auto [first, last] : set.ranges()) {
    for (const uint32_t longer : {0x80U, 0x800U, 0x10000U}) {
      if (first < longer && last >= longer)
        ranges.emplace_back(std::exchange(first, longer), longer - 1);
    }
    ranges.emplace_back(first, last);
  }
  return ranges;
}

void MergeRulesUsedOnce(const Grammar& grammar, Rules& rules, FSM& all) {
  RulesUsedOnce(grammar, rules, all).merge();
}

/// Removes all states that lead to no end, so that every matched text can be completed.
/// \throws std::runtime_error when no text matches the grammar
void CutDeadEnds(const Grammar& grammar, const Rules& rules, FSM& all) {
  if (rules.size() > kMaxNamed || all.GetEdgeAuxData().size() > kMaxNamed) {
    throw std::runtime_error(fmt::format("the grammar has more than {} rules", kMaxNamed));
  }
  const LiveStates states(rules, all);
  if (!states.can_end(grammar->GetRootRuleId())) {
    throw std::runtime_error("no text matches the grammar: what it begins with never ends");
  }
  for (std::vector<FSMEdge>& edges : all.GetEdges()) {
    for (FSMEdge& edge : edges) {
      const bool is_optional = edge.IsRepeatRef() && states.is_passable(edge);
      if (is_optional && !states.can_end(states.rule_of(edge))) {
        edge = FSMEdge(FSMEdge::EdgeType::kEpsilon, 0, edge.target);
      }
    }
    const auto is_dead = [&states](const FSMEdge& edge) {
      return !states.is_live(edge.target) || !states.is_passable(edge);
    };
    edges.erase(std::remove_if(edges.begin(), edges.end(), is_dead), edges.end());
  }
}

}  // namespace xgrammar
