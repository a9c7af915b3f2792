#include "reprise/compile/codegen/row_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <set>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/compile/codegen/row_values.h"

namespace reprise::compile {
namespace {

// Unrolled code for wider values would need more registers than there are, and would not fit into
// the instruction cache.
constexpr int64_t kMaxUnrolledVectors = 16;
// If the scratch is full, a value that at most this many ops compute is computed again instead of
// being kept.
constexpr size_t kMaxRecomputedOps = 4;

/// Identifies a loop while loops are chosen. The order of keys is the order of execution.
struct LoopKey {
  size_t nest = 0;
  size_t pass = 0;
  int64_t width = 0;

  friend auto operator<=>(const LoopKey&, const LoopKey&) = default;
};
using LoopSet = std::set<LoopKey>;

class LoopChooser {
 public:
  LoopChooser(RowValues body, int lanes)
      : values_(std::move(body.values)),
        outputs_(std::move(body.outputs)),
        num_inputs_(body.num_inputs),
        lanes_(lanes),
        num_body_values_(values_.size()) {}

  std::variant<RowLoops, std::string> choose() {
    place_values();
    if (!choose_homes()) return too_much_scratch();
    if (move_hazardous_stores_to_the_end()) {
      place_values();
      if (!choose_homes()) return too_much_scratch();
    }
    return assemble();
  }

 private:
  struct Place {
    size_t nest = 0;
    size_t pass = 0;
    size_t sum_pass = 0;  // for an rms_norm: the pass that sums the squares of its x
  };

  static std::string too_much_scratch() {
    return fmt::format("its loops need more than {} bytes per row", kMaxRowScratchBytes);
  }

  // ---- questions about the nest and the pass of a value

  bool is_computed(size_t value) const { return !is_memory(values_[value].kind); }
  /// Whether the value copies a kept value to an output at the end; see
  /// move_hazardous_stores_to_the_end().
  bool is_late_copy(size_t value) const { return value >= num_body_values_; }
  /// Whether the loop of `user` computes this operand itself instead of reading a kept value.
  bool is_inlined(size_t user, const RowRef& ref) const {
    const RowValue& source = values_[ref.value];
    return is_computed(ref.value) && !is_late_copy(user) && source.kind != RowValueKind::rope &&
           ref.heads == source.heads && ref.head_begin == 0 &&
           (ref.heads == 1 || ref.head_stride == source.width);
  }

  void place_values() {
    places_.assign(values_.size(), {});
    nest_heads_.clear();
    for (size_t v = 0; v < values_.size(); ++v) {
      if (!is_computed(v)) continue;
      places_[v].nest = choose_nest(v);
      choose_pass(v);
    }
  }

  size_t choose_nest(size_t v) {
    size_t first = is_late_copy(v) ? end_of_body_ : 0;
    for (const RowRef& ref : values_[v].sources) {
      if (!is_computed(ref.value)) continue;
      first = std::max(first, places_[ref.value].nest + (is_inlined(v, ref) ? 0 : 1));
    }
    for (size_t nest = first; nest < nest_heads_.size(); ++nest) {
      if (nest_heads_[nest] == values_[v].heads) return nest;
    }
    nest_heads_.push_back(values_[v].heads);
    return nest_heads_.size() - 1;
  }

  void choose_pass(size_t v) {
    Place& place = places_[v];
    for (const RowRef& ref : values_[v].sources) {
      if (!is_inlined(v, ref) || places_[ref.value].nest != place.nest) continue;
      // A value with another width needs another loop, which comes later.
      const bool same_loop =
          values_[ref.value].width == ref.width &&
          (values_[v].kind == RowValueKind::rms_norm || values_[v].loop_width() == ref.width);
      place.pass = std::max(place.pass, places_[ref.value].pass + (same_loop ? 0 : 1));
    }
    if (values_[v].kind == RowValueKind::rms_norm) place.sum_pass = place.pass++;
  }

  LoopKey loop_of(size_t v) const {
    return {places_[v].nest, places_[v].pass, values_[v].loop_width()};
  }
  LoopKey sum_loop_of(size_t norm) const {
    return {places_[norm].nest, places_[norm].sum_pass, values_[norm].width};
  }
  bool is_unrolled(size_t nest) const {
    return std::ranges::none_of(values_, [&](const RowValue& value) {
      const size_t v = static_cast<size_t>(&value - values_.data());
      return is_computed(v) && places_[v].nest == nest &&
             value.width > kMaxUnrolledVectors * lanes_;
    });
  }

  // ---- the values to keep, and their places

  /// Handles users before sources, so that all loops that use a value are known before its place is
  /// chosen.
  bool choose_homes() {
    wanted_.assign(values_.size(), {});
    evaluated_.assign(values_.size(), {});
    scratch_bytes_ = 0;
    std::vector<bool> is_read_elsewhere(values_.size());
    for (const size_t v : outputs_) wanted_[v].insert(loop_of(v));
    for (size_t v = values_.size(); v-- > 0;) {
      if (!is_computed(v)) continue;
      if (!choose_home(v, is_read_elsewhere[v])) return false;
      if (evaluated_[v].empty()) continue;  // no loop uses the value
      for (const RowRef& ref : values_[v].sources) {
        if (!is_computed(ref.value)) continue;
        if (!is_inlined(v, ref) || places_[ref.value].nest != places_[v].nest) {
          is_read_elsewhere[ref.value] = true;
          continue;
        }
        wanted_[ref.value].insert(evaluated_[v].begin(), evaluated_[v].end());
      }
      if (values_[v].kind == RowValueKind::rms_norm) want_sum(v);
    }
    return true;
  }

  void want_sum(size_t norm) {
    const RowRef& x = values_[norm].sources[0];
    if (is_computed(x.value) && is_inlined(norm, x) &&
        places_[x.value].nest == places_[norm].nest) {
      wanted_[x.value].insert(sum_loop_of(norm));
    }
  }

  bool choose_home(size_t v, bool is_read_elsewhere) {
    RowValue& value = values_[v];
    value.scratch.reset();
    value.kept_in_output.reset();
    evaluated_[v] = wanted_[v];
    const bool loops_want_it = wanted_[v].size() > 1 && !is_unrolled(places_[v].nest);
    if (!is_read_elsewhere && !loops_want_it) return true;

    const auto output = std::ranges::find(outputs_, v);
    if (output != outputs_.end()) {
      value.kept_in_output = static_cast<size_t>(output - outputs_.begin());
    } else {
      const size_t bytes =
          static_cast<size_t>(value.heads * value.width) * dtype_bytes(value.dtype);
      if (scratch_bytes_ + bytes > kMaxRowScratchBytes) {
        return !is_read_elsewhere && num_ops_of(v) <= kMaxRecomputedOps;
      }
      value.scratch = scratch_bytes_;
      scratch_bytes_ += (bytes + 63) / 64 * 64;
    }
    // In unrolled loops the value stays in a register, so only one loop computes the value.
    if (!is_unrolled(places_[v].nest)) evaluated_[v].clear();
    evaluated_[v].insert(loop_of(v));
    return true;
  }

  size_t num_ops_of(size_t v) const {
    size_t ops = 1;
    for (const RowRef& ref : values_[v].sources) {
      if (is_inlined(v, ref)) ops += num_ops_of(ref.value);
    }
    return ops;
  }

  // ---- outputs that use the memory of an input

  /// Calls `visit` for each loop that reads an input.
  template <typename Visit>
  void for_each_read(size_t input, Visit visit) const {
    for (size_t v = 0; v < values_.size(); ++v) {
      for (const RowRef& ref : values_[v].sources) {
        if (ref.value != input) continue;
        for (const LoopKey& loop : evaluated_[v]) visit(loop, ref);
        if (values_[v].kind == RowValueKind::rms_norm) visit(sum_loop_of(v), ref);
      }
    }
  }

  bool is_hazard(size_t output_value, size_t input) const {
    const RowValue& value = values_[output_value];
    const RowValue& source = values_[input];
    if (source.kind != RowValueKind::rows || source.dtype != value.dtype ||
        source.heads * source.width != value.heads * value.width) {
      return false;
    }
    const LoopKey store = loop_of(output_value);
    bool found = false;
    for_each_read(input, [&](const LoopKey& loop, const RowRef& ref) {
      const bool in_step = ref.head_begin == 0 && ref.begin == 0 && ref.heads == value.heads &&
                           ref.width == value.width;
      const bool in_time = is_unrolled(store.nest) || loop <= store;
      found |= loop.nest > store.nest || (loop.nest == store.nest && !(in_step && in_time));
    });
    return found;
  }

  /// Some outputs may be stored over an input of the same type. If a later loop still reads that
  /// input, the output is first kept in the scratch and copied to its memory at the end.
  bool move_hazardous_stores_to_the_end() {
    std::vector<size_t> hazardous;  // outputs
    for (size_t output = 0; output < outputs_.size(); ++output) {
      for (size_t input = 0; input < num_body_values_; ++input) {
        if (!is_hazard(outputs_[output], input)) continue;
        hazardous.push_back(output);
        break;
      }
    }
    end_of_body_ = nest_heads_.size();
    for (const size_t output : hazardous) {
      const RowValue& value = values_[outputs_[output]];
      RowValue copy = {.kind = RowValueKind::copy,
                       .dtype = value.dtype,
                       .heads = value.heads,
                       .width = value.width,
                       .sources = {whole(values_, outputs_[output])}};
      values_.push_back(std::move(copy));
      outputs_[output] = values_.size() - 1;
    }
    return !hazardous.empty();
  }

  // ---- the result

  RowLoops assemble() {
    std::set<LoopKey> keys;
    for (const LoopSet& loops : evaluated_) keys.insert(loops.begin(), loops.end());
    for (size_t v = 0; v < values_.size(); ++v) {
      if (is_summed(v)) keys.insert(sum_loop_of(v));
    }
    RowLoops loops;
    std::optional<size_t> nest;
    for (const LoopKey& key : keys) {
      if (nest != key.nest) {
        loops.nests.push_back(
            {.heads = nest_heads_[key.nest], .is_unrolled = is_unrolled(key.nest)});
      }
      nest = key.nest;
      loops.nests.back().loops.push_back(assemble_loop(key));
    }
    loops.num_inputs = num_inputs_;
    loops.num_outputs = outputs_.size();
    loops.scratch_bytes = scratch_bytes_;
    loops.values = std::move(values_);
    return loops;
  }

  bool is_summed(size_t v) const {
    return values_[v].kind == RowValueKind::rms_norm && !evaluated_[v].empty();
  }

  RowLoop assemble_loop(const LoopKey& key) const {
    RowLoop loop{.width = key.width};
    for (size_t v = 0; v < values_.size(); ++v) {
      if (evaluated_[v].contains(key)) loop.evaluated.push_back(v);
      if (is_summed(v) && sum_loop_of(v) == key) {
        loop.actions.push_back({.kind = RowAction::Kind::sum_squares, .value = v});
      }
      if (!is_computed(v) || loop_of(v) != key) continue;
      if (values_[v].scratch) loop.actions.push_back({RowAction::Kind::keep, v});
      for (size_t output = 0; output < outputs_.size(); ++output) {
        if (outputs_[output] == v) loop.actions.push_back({RowAction::Kind::store, v, output});
      }
    }
    return loop;
  }

  std::vector<RowValue> values_;
  std::vector<size_t> outputs_;
  size_t num_inputs_;
  int lanes_;
  size_t num_body_values_;

  std::vector<Place> places_;        // by value
  std::vector<int64_t> nest_heads_;  // by nest
  size_t end_of_body_ = 0;           // nests from here on copy kept values to outputs
  std::vector<LoopSet> wanted_;      // by value: loops that use it
  std::vector<LoopSet> evaluated_;   // by value: loops that compute it
  size_t scratch_bytes_ = 0;
};

}  // namespace

std::variant<RowLoops, std::string> choose_row_loops(const program::Program& body, int lanes) {
  REPRISE_ASSERT(lanes > 0, "vectors of {} lanes", lanes);
  auto values = read_row_values(body);
  if (auto* reason = std::get_if<std::string>(&values)) return std::move(*reason);
  return LoopChooser(std::move(std::get<RowValues>(values)), lanes).choose();
}

}  // namespace reprise::compile
