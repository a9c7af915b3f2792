#include "reprise/runner/program_forward.h"

#include <algorithm>
#include <utility>

#include "reprise/cudagraph/capture/breakable_capture.h"
#include "reprise/program/verify.h"

namespace reprise::runner {
namespace {

using cudagraph::CudagraphRuntimeMode;
using cudagraph::CudagraphWrapper;
using cudagraph::ForwardContext;
using program::Piece;

std::vector<Tensor> pick(const std::vector<Tensor>& from, std::span<const size_t> indices) {
  std::vector<Tensor> picked;
  for (size_t index : indices) picked.push_back(from[index]);
  return picked;
}

// Results that are buffers among the inputs get shared ownership of their memory. Without a memory
// plan the pool would otherwise give that memory to later results while later pieces still read it.
void own_again(std::span<Tensor> results, std::span<const Tensor> owners) {
  for (Tensor& result : results) {
    const auto owner = std::ranges::find_if(owners, [&](const Tensor& input) {
      return input.defined() && input.data() == result.data() && input.type() == result.type();
    });
    if (owner != owners.end()) result = *owner;
  }
}

// The symbol values of a staged batch.
program::SymbolValues sizes_of(std::span<const Tensor> inputs,
                               int64_t num_blocks,
                               int64_t tokens_per_unit) {
  return {.num_tokens = inputs[kInputIds].size(0) / tokens_per_unit,
          .num_reqs = inputs[kSeqLens].size(0),
          .num_logits = inputs[kLogitsIndices].size(0),
          .num_blocks = num_blocks};
}

}  // namespace

program::SymbolValues largest_of(const ProgramForwardOptions& options) {
  program::SymbolValues largest = options.largest;
  largest.num_tokens = (largest.num_tokens + options.tokens_per_unit - 1) / options.tokens_per_unit;
  return largest;
}

ProgramForward::ProgramForward(program::CompiledProgram program,
                               const program::SlotTensors& slots,
                               void* arena,
                               Execution& execution,
                               const cudagraph::CapturePermission& permission,
                               const ProgramForwardOptions& options)
    : program_(std::move(program)),
      execution_(&execution),
      permission_(&permission),
      tokens_per_unit_(options.tokens_per_unit) {
  const program::SplitProgram& split = program_.split;
  if (!program_.plan.empty()) {
    arena_ = std::make_unique<program::PlannedArena>(program_.plan, largest_of(options), arena);
  }
  code_.resize(split.programs.size());
  for (size_t i = 0; i < split.programs.size(); ++i) {
    for (const auto& group : program_.code.at(i)) code_[i].push_back(group.get());
    program::check(split.programs[i]);
  }
  values_.num_blocks = options.largest.num_blocks;
  boundary_.resize(split.num_boundary_values);
  for (size_t i = 0; i < split.pieces.size(); ++i) {
    const Piece& piece = split.pieces[i];
    interpreters_.emplace_back(split.programs[piece.program],
                               code_[piece.program],
                               program::Interpreter::Checked::already);
    pieces_.push_back({.slots = {.parameters = pick(slots.parameters, piece.parameters),
                                 .states = pick(slots.states, piece.states)}});
    if (!program_.wrap_pieces || piece.is_splitting) continue;
    pieces_.back().wrapper = std::make_unique<CudagraphWrapper>(
        [this, i](ForwardContext&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
          interpret(i, inputs, outputs);
        },
        CudagraphRuntimeMode::PIECEWISE,
        execution.device(),
        permission,
        cudagraph::CudagraphWrapperOptions{.copy_inputs = options.copy_inputs});
  }
  if (program_.wrap_pieces) return;
  breakable_ = std::make_unique<CudagraphWrapper>(
      [this](ForwardContext& context, std::span<const Tensor>, std::vector<Tensor>& outputs) {
        run_pieces(context, outputs);
      },
      CudagraphRuntimeMode::PIECEWISE,
      execution.device(),
      permission,
      cudagraph::CudagraphWrapperOptions{.break_at_split_points = true,
                                         .copy_inputs = options.copy_inputs});
}

void ProgramForward::run(ForwardContext& context,
                         std::span<const Tensor> inputs,
                         std::vector<Tensor>& outputs) {
  values_ = sizes_of(inputs, values_.num_blocks, tokens_per_unit_);
  if (breakable_ != nullptr) {
    (*breakable_)(context, inputs, outputs);
  } else {
    run_pieces(context, outputs);
  }
}

void ProgramForward::run_pieces(ForwardContext& context, std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (program_.split.pieces[i].is_splitting) {
      run_splitting_piece(context, i);
    } else {
      run_capturable_piece(context, i);
    }
    for (size_t value : program_.split.pieces[i].dead) boundary_[value] = Tensor{};
  }
  outputs.clear();
  for (size_t value : program_.split.outputs) outputs.push_back(boundary_[value]);
  std::fill(boundary_.begin(), boundary_.end(), Tensor{});
}

void ProgramForward::run_capturable_piece(ForwardContext& context, size_t index) {
  PieceState& piece = pieces_[index];
  gather_inputs(context.inputs, index, piece.inputs);
  if (piece.wrapper != nullptr) {
    (*piece.wrapper)(context, piece.inputs, piece.outputs);
  } else {
    interpret(index, piece.inputs, piece.outputs);
  }
  scatter_outputs(index);
}

void ProgramForward::run_splitting_piece(ForwardContext& context, size_t index) {
  PieceState& piece = pieces_[index];
  gather_inputs(context.inputs, index, piece.inputs);
  if (context.breakable == nullptr) {
    interpret(index, piece.inputs, piece.outputs);
    if (permission_->observer() != nullptr) {
      permission_->observer()->on_eager_results(piece.outputs);
    }
    scatter_outputs(index);
    return;
  }
  // The captured call runs again in every replay. It keeps the addresses of results of earlier
  // graphs, and takes the batch inputs from the context of the current step. Its results go to
  // buffers that already exist, so it returns no new tensors.
  const std::vector<Tensor> owners = piece.inputs;
  std::vector<Tensor> recorded;
  for (const Tensor& input : piece.inputs) recorded.push_back(input.without_ownership());
  cudagraph::split_point(context, {}, [this, index, recorded](ForwardContext& step) {
    PieceState& state = pieces_[index];
    const std::vector<size_t>& numbers = program_.split.pieces[index].inputs;
    state.inputs = recorded;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < step.inputs.size()) state.inputs[i] = step.inputs[numbers[i]];
    }
    values_ = sizes_of(step.inputs, values_.num_blocks, tokens_per_unit_);
    interpret(index, state.inputs, state.outputs);
  });
  own_again(piece.outputs, owners);
  if (permission_->observer() != nullptr) {
    permission_->observer()->on_eager_results(piece.outputs);
  }
  scatter_outputs(index);
}

void ProgramForward::interpret(size_t index,
                               std::span<const Tensor> inputs,
                               std::vector<Tensor>& outputs) {
  program::PlannedResults planned;
  if (arena_ != nullptr) {
    planned = {.placements = program_.plan.pieces[index], .arena = arena_.get()};
  }
  interpreters_[index].run(
      inputs, pieces_[index].slots, values_, execution_->executor(), outputs, planned);
}

void ProgramForward::gather_inputs(std::span<const Tensor> step_inputs,
                                   size_t index,
                                   std::vector<Tensor>& to) const {
  to.clear();
  for (size_t value : program_.split.pieces[index].inputs) {
    to.push_back(value < step_inputs.size() ? step_inputs[value] : boundary_[value]);
  }
}

void ProgramForward::scatter_outputs(size_t index) {
  PieceState& piece = pieces_[index];
  const std::vector<size_t>& numbers = program_.split.pieces[index].outputs;
  for (size_t i = 0; i < numbers.size(); ++i) boundary_[numbers[i]] = std::move(piece.outputs[i]);
  piece.inputs.clear();
  piece.outputs.clear();
}

size_t ProgramForward::num_piecewise_graphs() const noexcept {
  if (breakable_ != nullptr) return breakable_->num_graphs();
  size_t graphs = 0;
  for (const PieceState& piece : pieces_) {
    if (piece.wrapper != nullptr) graphs += piece.wrapper->num_graphs();
  }
  return graphs;
}

void ProgramForward::forget(const cudagraph::BatchDescriptor& descriptor) {
  if (breakable_ != nullptr) breakable_->forget(descriptor);
  for (const PieceState& piece : pieces_) {
    if (piece.wrapper != nullptr) piece.wrapper->forget(descriptor);
  }
}

size_t ProgramForward::graph_bytes() const noexcept {
  if (breakable_ != nullptr) return breakable_->graph_bytes();
  size_t bytes = 0;
  for (const PieceState& piece : pieces_) {
    if (piece.wrapper != nullptr) bytes += piece.wrapper->graph_bytes();
  }
  return bytes;
}

}  // namespace reprise::runner
