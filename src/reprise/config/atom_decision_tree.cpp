#include "reprise/config/atom_decision_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace reprise::config {
namespace {

/// One line of the tree. A leaf has a level, and at level 3 also a mode.
struct TreeLine {
  std::string_view text;
  std::optional<CompilationMode> level;
  std::optional<cudagraph::CudagraphMode> mode;
};

constexpr CompilationMode kNoLevel = CompilationMode::NONE;
constexpr CompilationMode kPieces = CompilationMode::VLLM_COMPILE;

constexpr auto kTree = std::to_array<TreeLine>({
    {"Can the model be traced?", {}, {}},
    {"|-- no: level 0, without graphs (--enforce-eager)", {}, {}},
    {"`-- yes: what is the engine for?", {}, {}},
    {"    |-- debugging or profiling: level 0", kNoLevel, cudagraph::CudagraphMode::NONE},
    {"    |-- checking that the model can be traced: level 1",
     CompilationMode::STOCK_TORCH_COMPILE,
     cudagraph::CudagraphMode::NONE},
    {"    |-- compiled kernels without graphs: level 2",
     CompilationMode::DYNAMO_TRACE_ONCE,
     cudagraph::CudagraphMode::NONE},
    {"    `-- production: level 3, and which batches?", {}, {}},
    {"        |-- ordinary serving: PIECEWISE (default)",
     kPieces,
     cudagraph::CudagraphMode::PIECEWISE},
    {"        |-- a small model, or uniform batches: FULL",
     kPieces,
     cudagraph::CudagraphMode::FULL},
    {"        |-- the decode side of a P/D pair: FULL_DECODE_ONLY",
     kPieces,
     cudagraph::CudagraphMode::FULL_DECODE_ONLY},
    {"        `-- the most speed: FULL_AND_PIECEWISE",
     kPieces,
     cudagraph::CudagraphMode::FULL_AND_PIECEWISE},
});

}  // namespace

std::string atom_decision_tree(const ResolvedConfig& resolved) {
  std::string text;
  bool is_found = false;
  // ATOM's runner does not read the mode, so the marked leaf is the one for the mode that ATOM's
  // configuration sets.
  const bool is_runners_mode = std::ranges::any_of(
      resolved.reasons, [](const ResolutionReason& reason) { return reason.rule == "T2"; });
  const cudagraph::CudagraphMode mode =
      is_runners_mode ? cudagraph::CudagraphMode::PIECEWISE : resolved.mode;
  for (const TreeLine& line : kTree) {
    const bool is_here = line.level == resolved.compilation_mode && line.mode == mode;
    is_found = is_found || is_here;
    text += fmt::format("{}{}\n", line.text, is_here ? "   <== here" : "");
  }
  if (!is_found) {
    text += fmt::format("no leaf: level {} with {} is not in ATOM's tree\n",
                        static_cast<int>(resolved.compilation_mode),
                        to_string(resolved.mode));
  }
  if (is_runners_mode) {
    text += fmt::format(
        "ATOM's runner does not read this mode: prompts run eagerly, decode batches replay FULL "
        "graphs of (batch size, query length), which is {} here\n",
        to_string(resolved.mode));
  }
  return text;
}

}  // namespace reprise::config
