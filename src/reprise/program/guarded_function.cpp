#include "reprise/program/guarded_function.h"

#include <utility>

namespace reprise::program {
namespace {

// The same signature with these sizes as constants.
TraceSignature at_sizes(TraceSignature signature, const SymbolValues& sizes) {
  for (TraceInput& input : signature.inputs) {
    input.type = constant_type(input.type.evaluate(sizes));
  }
  return signature;
}

}  // namespace

GuardedFunction::GuardedFunction(TraceSignature signature, TracedFunction function)
    : signature_(std::move(signature)), function_(std::move(function)) {
  for (const TraceInput& input : signature_.inputs) {
    (void)inputs_.add_input(input.name, input.type);
  }
}

std::vector<Tensor> GuardedFunction::run(std::span<const Tensor> inputs, OpExecutor& executor) {
  const SymbolValues sizes = bind_symbols(inputs_, inputs);
  Guarded* guarded = find(sizes);
  if (guarded == nullptr) guarded = trace_for(sizes);
  if (guarded == nullptr) {
    ++num_eager_runs_;
    return function_(inputs);
  }
  return guarded->interpreter->run(inputs, guarded->traced.slots, sizes, executor);
}

GuardedFunction::Guarded* GuardedFunction::find(const SymbolValues& sizes) {
  for (const auto& guarded : guarded_) {
    if (!guarded->sizes || *guarded->sizes == sizes) return guarded.get();
  }
  return nullptr;
}

GuardedFunction::Guarded* GuardedFunction::trace_for(const SymbolValues& sizes) {
  if (!decides_by_size_) {
    try {
      return add(std::nullopt, trace(signature_, function_));
    } catch (const TraceError& error) {
      if (!is_about_sizes(error)) throw;
      decides_by_size_ = true;
    }
  }
  if (guarded_.size() >= kMaxPrograms) return nullptr;
  return add(sizes, trace(at_sizes(signature_, sizes), function_));
}

GuardedFunction::Guarded* GuardedFunction::add(std::optional<SymbolValues> sizes,
                                               TracedProgram traced) {
  auto guarded = std::make_unique<Guarded>();
  guarded->sizes = sizes;
  guarded->traced = std::move(traced);
  guarded->interpreter = std::make_unique<Interpreter>(guarded->traced.program);
  guarded_.push_back(std::move(guarded));
  return guarded_.back().get();
}

}  // namespace reprise::program
