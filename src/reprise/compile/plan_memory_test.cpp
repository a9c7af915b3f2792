#include "reprise/compile/plan_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "reprise/tensor/aliasing.h"
#include "reprise/tensor/view.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Piece;
using program::Placement;
using program::Program;
using program::program_of;
using program::SplitProgram;
using program::Symbol;
using program::ValueId;

bool never(OpCode, size_t, size_t) { return false; }

// Runs a plan on simulated memory that remembers which value wrote each byte last. When a value is
// read, its bytes must still belong to it. So the test needs no lifetimes, which could be wrong in
// the same way as the planner's.
class MemoryOracle {
 public:
  MemoryOracle(const SplitProgram& split, const program::MemoryPlan& plan)
      : split_(split), plan_(plan), boundary_(split.num_boundary_values) {}

  void run() {
    for (size_t i = 0; i < split_.pieces.size(); ++i) run_piece(split_.pieces[i], plan_.pieces[i]);
    for (size_t output : split_.outputs) expect_intact(boundary_[output], "an output");
  }

 private:
  struct Place {
    int owner = 0;  // the number of a value; 0: the value has no place
    Symbol symbol = Symbol::none;
    int64_t begin = 0;
    int64_t end = 0;
  };

  void run_piece(const Piece& piece, const std::vector<std::optional<Placement>>& placements) {
    const Program& program = split_.programs[piece.program];
    std::vector<Place> places(program.values.size());
    for (size_t i = 0; i < piece.inputs.size(); ++i) {
      places[index_of(program.inputs[i].value)] = boundary_[piece.inputs[i]];
    }
    for (const Node& node : program.nodes) {
      const program::OpSignature signature = program::signature_of(program, node);
      for (ValueId id : node.inputs) {
        if (id != kNoValue) expect_intact(places[index_of(id)], op_name(node.op));
      }
      if (is_view(node.op)) {
        places[index_of(node.outputs[0])] = places[index_of(node.inputs[0])];
      } else if (signature.out_buffer) {
        places[index_of(node.outputs.back())] =
            places[index_of(node.inputs[*signature.out_buffer])];
      } else {
        for (size_t i = 0; i < signature.num_results; ++i) {
          places[index_of(node.outputs[i])] = write(program, node.outputs[i], placements);
        }
        for (size_t i = 0; i < signature.num_results; ++i) {
          expect_intact(places[index_of(node.outputs[i])], "two results of one op");
        }
      }
    }
    for (size_t i = 0; i < piece.outputs.size(); ++i) {
      boundary_[piece.outputs[i]] = places[index_of(program.outputs[i])];
    }
  }

  Place write(const Program& program,
              ValueId id,
              const std::vector<std::optional<Placement>>& placements) {
    const std::optional<Placement>& placement = placements[index_of(id)];
    if (!placement) return {};
    const int64_t units = placement->symbol == Symbol::none ? 1 : 1000;
    program::SymbolValues values{1, 1, 1, 1};
    if (placement->symbol != Symbol::none) values[placement->symbol] = units;
    const auto bytes = static_cast<int64_t>(program.type(id).evaluate(values).bytes());
    const int64_t begin = placement->bytes_per_unit * units;
    const Place place{++last_owner_, placement->symbol, begin, begin + bytes};
    EXPECT_LE(place.end, plan_.bytes_per_unit[static_cast<size_t>(placement->symbol)] * units);
    std::erase_if(memory_, [&](const Place& other) {
      return other.symbol == place.symbol && other.begin < place.end && place.begin < other.end;
    });
    memory_.push_back(place);
    return place;
  }

  void expect_intact(const Place& place, std::string_view reader) const {
    if (place.owner == 0 || place.begin == place.end) return;
    const bool is_there = std::any_of(memory_.begin(), memory_.end(), [&](const Place& other) {
      return other.owner == place.owner;
    });
    EXPECT_TRUE(is_there) << reader << " reads what has been overwritten";
  }

  const SplitProgram& split_;
  const program::MemoryPlan& plan_;
  std::vector<Place> boundary_;
  std::vector<Place> memory_;
  int last_owner_ = 0;
};

TEST(PlanMemory, never_overwrites_what_is_still_read) {
  const std::vector<std::vector<OpCode>> splits = {
      {}, {OpCode::attention}, {OpCode::linear, OpCode::rope}};
  int64_t planned = 0;
  int64_t live = 0;
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    const Program program = program::random_program(seed, {.num_steps = 20});
    const SplitProgram split = program::split(program, splits[seed % splits.size()]);
    const PlannedMemory memory = plan_memory(split, seed % 2 == 0 ? can_alias : never);
    MemoryOracle(split, memory.plan).run();
    EXPECT_GE(memory.planned_bytes_per_token, memory.live_bytes_per_token);
    planned += memory.planned_bytes_per_token;
    live += memory.live_bytes_per_token;
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << program::print(program);
  }
  // Random programs are harder to plan than models, but they must meet the same bound of 1.1.
  EXPECT_LE(static_cast<double>(planned), 1.1 * static_cast<double>(live));
}

TEST(PlanMemory, gives_a_dying_operand_s_memory_to_the_result) {
  const Program program = program_of(R"(program {
    input %x: f32[T, 16]
    parameter p0: f32[16]
    %0: f32[T, 16] = add(%x, %x)
    %1: f32[T, 16] = rms_norm(%0, p0) {epsilon=1e-05}
    %2: f32[T, 16] = add(%1, %1)
    return %2
  })");
  const SplitProgram split = program::split(program, {});
  EXPECT_EQ(plan_memory(split, can_alias).planned_bytes_per_token, 2 * 64)
      << "the norm takes the first sum's place; add(a, a) reads its operand twice";
  EXPECT_EQ(plan_memory(split, never).planned_bytes_per_token, 2 * 64);
}

TEST(PlanMemory, keeps_a_value_that_a_later_piece_reads) {
  const Program program = program_of(R"(program {
    input %x: f32[T, 16]
    parameter p0: f32[16, 16]
    %0: f32[T, 16] = add(%x, %x)
    %1: f32[T, 16] = linear(%0, p0)
    %2: f32[T, 16] = add(%1, %0)
    return %2
  })");
  const SplitProgram split = program::split(program, {{OpCode::linear}});
  const PlannedMemory memory = plan_memory(split, can_alias);
  MemoryOracle(split, memory.plan).run();
  EXPECT_EQ(memory.live_bytes_per_token, 2 * 64);
  EXPECT_EQ(memory.planned_bytes_per_token, 2 * 64) << "the last sum lies where an operand did";
}

TEST(PlanMemory, has_a_part_for_each_symbol) {
  const Program program = program_of(R"(program {
    input %x: f32[T, 16]
    input %rows: i32[L]
    %0: f32[T, 16] = add(%x, %x)
    %1: f32[L, 16] = gather_rows(%0, %rows)
    return %1
  })");
  const PlannedMemory memory = plan_memory(program::split(program, {}), can_alias);
  EXPECT_EQ(memory.plan.bytes_per_unit[static_cast<size_t>(Symbol::num_tokens)], 64);
  EXPECT_EQ(memory.plan.bytes_per_unit[static_cast<size_t>(Symbol::num_logits)], 64);
  EXPECT_EQ(program::PlannedArena::bytes_of(memory.plan, {.num_tokens = 10, .num_logits = 3}),
            13U * 64U);
}

}  // namespace
}  // namespace reprise::compile
