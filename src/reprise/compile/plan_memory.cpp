#include "reprise/compile/plan_memory.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "reprise/tensor/view.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::MemoryPlan;
using program::Node;
using program::Piece;
using program::Placement;
using program::Program;
using program::SplitProgram;
using program::Symbol;
using program::SymInt;
using program::ValueId;
using program::ValueType;

// The size of a value as bytes per unit of its symbol. nullopt if two of its dimensions depend on
// the batch.
std::optional<Placement> size_of(const ValueType& type) {
  Placement size{.symbol = Symbol::none,
                 .bytes_per_unit = static_cast<int64_t>(dtype_bytes(type.dtype))};
  for (const SymInt& dim : type.shape.sizes()) {
    if (dim.is_constant()) {
      size.bytes_per_unit *= dim.constant();
      continue;
    }
    if (size.symbol != Symbol::none) return std::nullopt;
    size.symbol = dim.symbol();
    // A symbol is at least 1, so 2*T+3 elements fit into (2+3)*T elements.
    size.bytes_per_unit *= dim.coefficient() + std::max<int64_t>(dim.constant(), 0);
  }
  constexpr int64_t kAlignment = program::kPlanAlignment;
  size.bytes_per_unit = (size.bytes_per_unit + kAlignment - 1) / kAlignment * kAlignment;
  return size;
}

// A range of memory. Several results may use it one after the other.
struct Allocation {
  Placement size;
  size_t first = 0;  // first use and last use: positions in the order of all nodes of all pieces
  size_t last = 0;
  int64_t offset = 0;  // bytes per unit

  [[nodiscard]] bool meets(const Allocation& other) const noexcept {
    return size.symbol == other.size.symbol && first <= other.last && other.first <= last;
  }
};

constexpr size_t kNone = static_cast<size_t>(-1);
constexpr size_t kForEver = static_cast<size_t>(-2);

// Walks over all pieces twice. The first walk finds the last use of each result. The second walk
// decides which results take the memory of an operand.
class Planner {
 public:
  Planner(const SplitProgram& split, AliasRule can_alias) : split_(split), can_alias_(can_alias) {}

  PlannedMemory plan() {
    walk(nullptr);
    const std::vector<Allocation> lifetimes = std::move(allocations_);
    allocations_.clear();
    walk(&lifetimes);
    place();
    return result();
  }

 private:
  // nullptr in the first walk, in which no result takes the memory of another. The second walk gets
  // the lifetimes that the first walk found.
  void walk(const std::vector<Allocation>* lifetimes) {
    time_ = 0;
    num_results_ = 0;
    boundary_.assign(split_.num_boundary_values, kNone);
    by_piece_.clear();
    for (const Piece& piece : split_.pieces) walk_piece(piece, lifetimes);
    for (size_t output : split_.outputs) {
      if (boundary_[output] != kNone) allocations_[boundary_[output]].last = kForEver;
    }
  }

  // For each value of the current piece's program: the memory in which it is stored.
  struct PieceValues {
    std::vector<size_t> allocation_of;
    std::vector<bool> is_whole;  // whether the value begins where its allocation begins
  };

  void walk_piece(const Piece& piece, const std::vector<Allocation>* lifetimes) {
    const Program& program = split_.programs[piece.program];
    PieceValues values{.allocation_of = std::vector<size_t>(program.values.size(), kNone),
                       .is_whole = std::vector<bool>(program.values.size(), false)};
    for (size_t i = 0; i < piece.inputs.size(); ++i) {
      const size_t value = index_of(program.inputs[i].value);
      values.allocation_of[value] = boundary_[piece.inputs[i]];
      values.is_whole[value] = true;
    }
    for (const Node& node : program.nodes) walk_node(program, node, values, lifetimes);
    for (size_t i = 0; i < piece.outputs.size(); ++i) {
      boundary_[piece.outputs[i]] = values.allocation_of[index_of(program.outputs[i])];
      // The piece that receives the value uses it, so it lives at least until then.
      if (boundary_[piece.outputs[i]] != kNone) use(boundary_[piece.outputs[i]]);
    }
    by_piece_.push_back(allocations_of_results(program, values));
  }

  // Notes that the allocation is in use now.
  void use(size_t allocation) {
    Allocation& used = allocations_[allocation];
    used.last = std::max(used.last, time_);
  }

  void walk_node(const Program& program,
                 const Node& node,
                 PieceValues& values,
                 const std::vector<Allocation>* lifetimes) {
    ++time_;
    for (ValueId id : node.inputs) {
      if (id == kNoValue || values.allocation_of[index_of(id)] == kNone) continue;
      use(values.allocation_of[index_of(id)]);
    }
    const program::OpSignature signature = program::signature_of(program, node);
    if (is_view(node.op)) {
      values.allocation_of[index_of(node.outputs[0])] =
          values.allocation_of[index_of(node.inputs[0])];
      return;
    }
    if (signature.out_buffer) {
      const size_t buffer = index_of(node.inputs[*signature.out_buffer]);
      values.allocation_of[index_of(node.outputs.back())] = values.allocation_of[buffer];
      values.is_whole[index_of(node.outputs.back())] = values.is_whole[buffer];
      return;
    }
    allocate_results(program, node, signature.num_results, values, lifetimes);
  }

  void allocate_results(const Program& program,
                        const Node& node,
                        size_t num_results,
                        PieceValues& values,
                        const std::vector<Allocation>* lifetimes) {
    std::vector<size_t> taken;  // allocations that results of this node have taken already
    for (size_t i = 0; i < num_results; ++i) {
      const size_t value = index_of(node.outputs[i]);
      const std::optional<Placement> size = size_of(program.type(node.outputs[i]));
      const size_t number = num_results_++;
      if (lifetimes == nullptr) numbers_.push_back(kNone);
      if (!size) continue;
      values.is_whole[value] = true;
      size_t shared = kNone;
      if (lifetimes != nullptr) shared = place_of_operand(program, node, i, values, *lifetimes);
      if (shared != kNone && std::find(taken.begin(), taken.end(), shared) == taken.end()) {
        values.allocation_of[value] = shared;
        use(shared);
      } else {
        values.allocation_of[value] = allocations_.size();
        allocations_.push_back({.size = *size, .first = time_, .last = time_});
      }
      taken.push_back(values.allocation_of[value]);
      if (lifetimes == nullptr) numbers_[number] = values.allocation_of[value];
      remember(values.allocation_of[value], number);
    }
  }

  // By value: the allocation of each result that gets new memory in this piece; kNone for others.
  static std::vector<size_t> allocations_of_results(const Program& program,
                                                    const PieceValues& values) {
    std::vector<size_t> placed(program.values.size(), kNone);
    for (const Node& node : program.nodes) {
      const program::OpSignature signature = program::signature_of(program, node);
      if (is_view(node.op) || signature.out_buffer) continue;
      for (size_t i = 0; i < signature.num_results; ++i) {
        placed[index_of(node.outputs[i])] = values.allocation_of[index_of(node.outputs[i])];
      }
    }
    return placed;
  }

  // In the second walk: notes which result of the first walk is the newest one in an allocation,
  // because that result's lifetime says when the allocation ends.
  void remember(size_t allocation, size_t result_number) {
    latest_result_.resize(allocations_.size(), kNone);
    latest_result_[allocation] = result_number;
  }

  // The memory of an operand that a result may take: this node is the last use of the operand.
  size_t place_of_operand(const Program& program,
                          const Node& node,
                          size_t result,
                          const PieceValues& values,
                          const std::vector<Allocation>& lifetimes) const {
    for (size_t operand = 0; operand < node.inputs.size(); ++operand) {
      const ValueId id = node.inputs[operand];
      if (id == kNoValue || can_alias_ == nullptr || !can_alias_(node.op, operand, result))
        continue;
      const size_t allocation = values.allocation_of[index_of(id)];
      if (allocation == kNone || !values.is_whole[index_of(id)]) continue;
      if (program.type(id) != program.type(node.outputs[result])) continue;
      const size_t number = latest_result_[allocation];
      const Allocation& alone = lifetimes[numbers_[number]];
      const bool is_used_twice = std::count(node.inputs.begin(), node.inputs.end(), id) > 1;
      if (alone.last == time_ && !is_used_twice) return allocation;
    }
    return kNone;
  }

  // Places the largest allocation first. Then, as long as the result improves, places the
  // allocation that ended highest in the arena first and tries again. Equal programs get equal
  // plans.
  void place() {
    std::vector<size_t> order(allocations_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return allocations_[a].size.bytes_per_unit > allocations_[b].size.bytes_per_unit;
    });
    place_in(order);
    std::vector<Allocation> best = allocations_;
    const int64_t least = most_live_bytes();
    constexpr int kAttempts = 64;  // a placement takes microseconds; few plans need more than 3
    for (int i = 0; i < kAttempts && part_bytes(best) > least; ++i) {
      const auto highest = std::max_element(order.begin(), order.end(), [&](size_t a, size_t b) {
        return end_of(allocations_[a]) < end_of(allocations_[b]);
      });
      std::rotate(order.begin(), highest, highest + 1);
      place_in(order);
      if (part_bytes(allocations_) < part_bytes(best)) best = allocations_;
    }
    allocations_ = std::move(best);
  }

  [[nodiscard]] static int64_t end_of(const Allocation& allocation) {
    return allocation.size.symbol == Symbol::num_tokens
               ? allocation.offset + allocation.size.bytes_per_unit
               : 0;
  }
  // The size per token of that part of the arena that grows with the number of tokens.
  [[nodiscard]] static int64_t part_bytes(const std::vector<Allocation>& allocations) {
    int64_t bytes = 0;
    for (const Allocation& allocation : allocations) bytes = std::max(bytes, end_of(allocation));
    return bytes;
  }

  // Gives each allocation the lowest offset that is free during its whole lifetime.
  void place_in(const std::vector<size_t>& order) {
    std::vector<size_t> placed;
    for (size_t index : order) {
      Allocation& allocation = allocations_[index];
      allocation.offset = 0;
      std::vector<const Allocation*> in_the_way;
      for (size_t other : placed) {
        if (allocation.meets(allocations_[other])) in_the_way.push_back(&allocations_[other]);
      }
      std::sort(in_the_way.begin(), in_the_way.end(), [](const auto* x, const auto* y) {
        return x->offset < y->offset;
      });
      for (const Allocation* other : in_the_way) {
        if (allocation.offset + allocation.size.bytes_per_unit <= other->offset) break;
        allocation.offset = std::max(allocation.offset, other->offset + other->size.bytes_per_unit);
      }
      placed.push_back(index);
    }
  }

  PlannedMemory result() const {
    PlannedMemory memory;
    for (const std::vector<size_t>& values : by_piece_) {
      std::vector<std::optional<Placement>>& placements = memory.plan.pieces.emplace_back();
      for (size_t allocation : values) {
        if (allocation == kNone) {
          placements.emplace_back();
        } else {
          placements.push_back(
              Placement{allocations_[allocation].size.symbol, allocations_[allocation].offset});
        }
      }
    }
    for (const Allocation& allocation : allocations_) {
      int64_t& part = memory.plan.bytes_per_unit[static_cast<size_t>(allocation.size.symbol)];
      part = std::max(part, allocation.offset + allocation.size.bytes_per_unit);
    }
    memory.planned_bytes_per_token =
        memory.plan.bytes_per_unit[static_cast<size_t>(Symbol::num_tokens)];
    memory.live_bytes_per_token = most_live_bytes();
    return memory;
  }

  [[nodiscard]] int64_t most_live_bytes() const {
    std::vector<int64_t> change(time_ + 2, 0);
    for (const Allocation& allocation : allocations_) {
      if (allocation.size.symbol != Symbol::num_tokens) continue;
      change[allocation.first] += allocation.size.bytes_per_unit;
      change[std::min(allocation.last, time_) + 1] -= allocation.size.bytes_per_unit;
    }
    int64_t live = 0;
    int64_t most = 0;
    for (int64_t step : change) most = std::max(most, live += step);
    return most;
  }

  const SplitProgram& split_;
  AliasRule can_alias_;
  size_t time_ = 0;
  std::vector<Allocation> allocations_;
  std::vector<size_t> boundary_;  // allocation by boundary value
  // By piece and value: the allocation of each computed value.
  std::vector<std::vector<size_t>> by_piece_;
  // Numbers the results in the order of a walk, which is the same in both walks.
  size_t num_results_ = 0;
  std::vector<size_t> numbers_;  // allocation of each result in the first walk, by result number
  // By allocation of the second walk: the number of its newest result.
  std::vector<size_t> latest_result_;
};

}  // namespace

PlannedMemory plan_memory(const SplitProgram& split, AliasRule can_alias) {
  return Planner(split, can_alias).plan();
}

}  // namespace reprise::compile
