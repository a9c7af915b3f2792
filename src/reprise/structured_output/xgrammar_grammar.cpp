// Two steps of xgrammar's compiler that are ours; compiled into it.
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

/// What the 16 bits of an edge can name: a rule, or a place in the table of repetitions.
constexpr size_t kMaxNamed = std::numeric_limits<int16_t>::max();

/// Which states of all rules an end of their rule can be reached from.
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
  /// -1: an edge that stands for no rule.
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
  std::vector<int32_t> revived_;                    // whose neighbours are to be looked at
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

/// Takes away what leads to no end, so that whatever has been matched can be completed.
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
