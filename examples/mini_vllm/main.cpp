// Prints the numbers of the lesson. mini_vllm_test.cpp checks them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mini_vllm/mini_vllm.h"
#include "reprise/cudagraph/capture_sizes.h"

using namespace mini_vllm;

namespace {

std::vector<Op> ten_ops(bool with_attention) {
  std::vector<Op> ops(10, Op{.scale = 1.5F, .offset = 1});
  if (with_attention) ops[5].is_capturable = false;
  return ops;
}

void show_launches() {
  Machine machine;
  const Values x = {1, 2, 3, 4};
  const auto count = [&](auto&& call) {
    const uint64_t before = machine.launches();
    call();
    return machine.launches() - before;
  };
  GraphRunner full(machine, ten_ops(false));
  PiecewiseGraphRunner piecewise(machine, ten_ops(true));
  full(x);
  piecewise(x);
  fmt::print("1. One call of a model of ten ops, the sixth of which cannot be captured\n");
  fmt::print("   eager      {:>2} launches\n",
             count([&] { run_eager(machine, ten_ops(true), x); }));
  fmt::print("   piecewise  {:>2} launches ({} graphs and the one op between them)\n",
             count([&] { piecewise(x); }),
             piecewise.num_graphs(4));
  fmt::print("   full       {:>2} launch (if all ten could be captured)\n",
             count([&] { full(x); }));
}

void show_static_buffer() {
  Machine machine;
  GraphRunner runner(machine, {{.scale = 2}});
  const Values first = runner({1, 2});
  fmt::print("\n2. A graph reads its static buffer, not the caller's memory\n");
  fmt::print("   runner({{1, 2}}) = {}, then a replay without a copy = {}\n",
             first,
             runner.replay_what_lies_there(2));
}

void show_ladder() {
  const std::vector<int32_t> ladder = capture_ladder(512);
  const reprise::cudagraph::PaddingTable rungs(ladder);
  fmt::print("\n3. The ladder for at most 512 tokens: {} graphs\n   {}\n",
             ladder.size(),
             fmt::join(ladder, " "));
  for (int32_t n : {1, 3, 9, 33, 257, 512}) {
    const int32_t rung = rungs.padded(n);
    fmt::print(
        "   {:>3} tokens -> {:>3} ({:>4.1f} % padding)\n", n, rung, 100.0 * (rung - n) / rung);
  }
}

void show_break_even() {
  fmt::print("\n4. When a capture has paid for itself (costs in launches)\n");
  fmt::print("   {:>5} {:>13} {:>12} {:>16} {:>17}\n",
             "ops",
             "capture costs",
             "break-even",
             "gain at 10 calls",
             "gain at 1e6 calls");
  for (int64_t num_ops : {1, 4, 32, 300}) {
    for (int64_t factor : {1, 5}) {
      const LaunchArithmetic costs{.num_ops = num_ops, .capture_cost = factor * num_ops};
      const auto calls = costs.break_even_calls();
      fmt::print("   {:>5} {:>13} {:>12} {:>16.2f} {:>17.2f}\n",
                 num_ops,
                 costs.capture_cost,
                 calls ? fmt::format("call {}", *calls) : "never",
                 costs.gain(10),
                 costs.gain(1'000'000));
    }
  }
  fmt::print(
      "   300 kernels at about 5 us a launch are 1.5 ms per token before any of them computes.\n");
  fmt::print(
      "   If launching was half of the time, one launch for 300 makes it {:.2f}x as fast; if a "
      "tenth, {:.2f}x.\n",
      speedup(0.5, 300),
      speedup(0.1, 300));
}

}  // namespace

int main() {
  show_launches();
  show_static_buffer();
  show_ladder();
  show_break_even();
}
