#include "reprise/compile/passes/group_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "reprise/compile/passes/program_edit.h"
#include "reprise/compile/passes/row_group_body.h"
#include "reprise/program/text.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Program;
using program::ValueId;

// Ops that will run as one launch, in program order, and the index of the node in whose place they
// run.
struct Group {
  std::vector<size_t> members;
  size_t slot = 0;
};

class RowGrouper {
 public:
  RowGrouper(Program& program, const GroupRowsOptions& options)
      : program_(program), options_(options), flow_(program) {
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      group_of_.push_back(i);
      groups_.push_back({{i}, i});
    }
  }

  size_t run() && {
    find_candidates();
    while (merge_best()) continue;
    size_t num_groups = 0;
    for (Group& group : groups_) num_groups += make_node(group) ? 1 : 0;
    if (num_groups > 0) rebuild();
    return num_groups;
  }

 private:
  // Two groups; the first is the earlier one in the program.
  using Pair = std::pair<size_t, size_t>;

  // ---- which to merge ----

  bool merge_best() {
    std::vector<std::pair<int64_t, Pair>> best;
    for (const auto& [pair, saved] : saved_bytes_) best.emplace_back(-saved, pair);
    std::sort(best.begin(), best.end());
    return std::any_of(best.begin(), best.end(), [this](const auto& candidate) {
      return merge(candidate.second);
    });
  }

  // Finds pairs of groups to merge: both read the same rows, or one reads a result of the other.
  void find_candidates() {
    for (const auto& [rows, readers] : flow_.row_readers()) {
      // Rows of a single number, such as the positions that all layers read: groups that share only
      // such rows save nothing.
      if (flow_.row_bytes(rows) == 0) continue;
      std::set<size_t> nodes(readers.begin(), readers.end());
      const std::optional<size_t> maker = flow_.definition(rows);
      if (maker && flow_.can_be_member(*maker)) nodes.insert(*maker);
      for (auto a = nodes.begin(); a != nodes.end(); ++a) {
        for (auto b = std::next(a); b != nodes.end(); ++b) add_candidate({*a, *b});
      }
    }
  }
  void add_candidate(Pair pair) {
    if (saved_bytes_.contains(pair)) return;
    const std::vector<size_t>& a = groups_[pair.first].members;
    const std::vector<size_t>& b = groups_[pair.second].members;
    if (!flow_.have_equal_rows(united(a, b))) return;
    const int64_t saved = saved_bytes(a, b);
    if (saved > 0) saved_bytes_.emplace(pair, saved);
  }

  // The bytes per row that need not be written or read any more if both groups become one loop.
  [[nodiscard]] int64_t saved_bytes(const std::vector<size_t>& a,
                                    const std::vector<size_t>& b) const {
    const std::vector<size_t> both = united(a, b);
    return traffic(a) + traffic(b) - traffic(both);
  }
  [[nodiscard]] int64_t traffic(const std::vector<size_t>& members) const {
    std::set<ValueId> read;
    int64_t bytes = 0;
    for (size_t member : members) {
      for (ValueId rows : flow_.rows_read_by(member)) {
        if (!defines(members, rows) && read.insert(rows).second) bytes += flow_.row_bytes(rows);
      }
    }
    for (ValueId result : flow_.results_of(members)) bytes += flow_.row_bytes(result);
    return bytes;
  }
  [[nodiscard]] bool defines(const std::vector<size_t>& members, ValueId value) const {
    const std::optional<size_t> maker = flow_.definition(value);
    return maker && std::binary_search(members.begin(), members.end(), *maker);
  }
  static std::vector<size_t> united(const std::vector<size_t>& a, const std::vector<size_t>& b) {
    std::vector<size_t> both;
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
  }

  // ---- whether they can be merged ----

  bool merge(Pair pair) {
    const auto [a, b] = pair;
    const std::vector<size_t> members = united(groups_[a].members, groups_[b].members);
    const std::optional<size_t> slot = find_slot(members);
    if (!slot) return false;  // merging may succeed later, when another group has moved
    if (!is_acceptable(members)) {
      saved_bytes_.erase(pair);
      return false;
    }
    groups_[a] = {members, *slot};
    groups_[b].members.clear();
    for (size_t member : members) group_of_[member] = a;
    // The merged group inherits the candidate pairs of both groups.
    std::set<size_t> others;
    std::erase_if(saved_bytes_, [&](const auto& candidate) {
      const auto [x, y] = candidate.first;
      if (x != a && x != b && y != a && y != b) return false;
      others.insert(x == a || x == b ? y : x);
      return true;
    });
    for (size_t other : others) {
      if (other != a && other != b) add_candidate({std::min(a, other), std::max(a, other)});
    }
    return true;
  }

  [[nodiscard]] bool is_acceptable(const std::vector<size_t>& members) const {
    const std::optional<RowGroupBody> body = make_body(flow_, members);
    if (!body || !is_within_limits(*body)) return false;
    return !options_.can_compile || options_.can_compile(body->program);
  }

  // The position of a member at which all operands of the group are defined and no result has been
  // used; of several positions the last.
  [[nodiscard]] std::optional<size_t> find_slot(const std::vector<size_t>& members) const {
    size_t first = 0;  // an earlier slot would precede the definition of an operand
    size_t last = program_.nodes.size();
    const auto is_member = [&](size_t node) {
      return std::binary_search(members.begin(), members.end(), node);
    };
    for (size_t member : members) {
      for (size_t node : flow_.nodes_before(member)) {
        if (!is_member(node)) first = std::max(first, slot_of(node) + 1);
      }
      for (size_t node : flow_.nodes_after(member)) {
        if (!is_member(node)) last = std::min(last, slot_of(node));
      }
    }
    for (size_t i = members.size(); i-- > 0;) {
      if (members[i] >= first && members[i] < last) return members[i];
    }
    return std::nullopt;
  }
  [[nodiscard]] size_t slot_of(size_t node) const { return groups_[group_of_[node]].slot; }

  // ---- the new program ----

  bool make_node(const Group& group) {
    if (group.members.empty()) return false;
    if (group.members.size() == 1 &&
        !(options_.group_single_ops && flow_.can_be_member(group.members[0]) &&
          is_acceptable(group.members))) {
      return false;
    }
    RowGroupBody body = *make_body(flow_, group.members);
    Node node{.op = OpCode::row_group,
              .inputs = std::move(body.inputs),
              .outputs = std::move(body.outputs),
              .location = program_.nodes[group.members[0]].location};
    const std::string text = program::canonical_text(body.program);
    const auto [known, is_new] = group_by_text().emplace(text, program_.groups.size());
    if (is_new) program_.groups.push_back(std::move(body.program));
    node.attributes.group = static_cast<uint32_t>(known->second);
    made_.emplace(group.slot, std::move(node));
    for (size_t member : group.members) {
      if (member != group.slot) is_gone_.insert(member);
    }
    return true;
  }
  std::map<std::string, size_t>& group_by_text() {
    if (by_text_.empty()) {
      for (size_t i = 0; i < program_.groups.size(); ++i) {
        by_text_.emplace(program::canonical_text(program_.groups[i]), i);
      }
    }
    return by_text_;
  }

  // Adds the nodes in their new order. A view is added again right before its first use, because
  // the node that computes its operand may have moved.
  void rebuild() {
    std::vector<Node> nodes;
    std::set<size_t> views;
    const auto add_views = [&](auto&& self, ValueId value) -> void {
      const std::optional<size_t> view = flow_.view(value);
      if (!view || !views.insert(*view).second) return;
      self(self, program_.nodes[*view].inputs[0]);
      nodes.push_back(program_.nodes[*view]);
    };
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (flow_.is_view(i) || is_gone_.contains(i)) continue;
      const auto made = made_.find(i);
      const Node& node = made == made_.end() ? program_.nodes[i] : made->second;
      for (ValueId id : node.inputs) add_views(add_views, id);
      nodes.push_back(node);
    }
    for (ValueId id : program_.outputs) add_views(add_views, id);
    program_.nodes = std::move(nodes);
    ProgramEdit(program_).finish();  // renumbers the values
  }

  Program& program_;
  const GroupRowsOptions& options_;
  RowFlow flow_;
  std::vector<size_t> group_of_;  // by node
  std::vector<Group> groups_;
  std::map<Pair, int64_t> saved_bytes_;  // the candidate pairs that have not been rejected
  std::map<size_t, Node> made_;          // by slot
  std::set<size_t> is_gone_;
  std::map<std::string, size_t> by_text_;
};

}  // namespace

size_t group_rows(Program& program, const GroupRowsOptions& options) {
  return RowGrouper(program, options).run();
}

}  // namespace reprise::compile
