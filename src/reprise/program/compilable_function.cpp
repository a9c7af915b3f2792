#include "reprise/program/compilable_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace reprise::program {

CompilableFunction::CompilableFunction(TracedFunction function,
                                       std::vector<std::string> argument_names,
                                       Memory memory,
                                       CompileSupport support)
    : function_(std::move(function)),
      names_(std::move(argument_names)),
      memory_(std::move(memory)),
      support_(std::move(support)) {
  for (const CompileSupport::DynamicDim& dynamic : support_.dynamic_arg_dims) {
    if (std::find(names_.begin(), names_.end(), dynamic.argument) == names_.end()) {
      throw InvalidArgument(
          fmt::format("dynamic_arg_dims: no argument is called '{}'; there are {}",
                      dynamic.argument,
                      fmt::join(names_, ", ")));
    }
  }
}

std::vector<Tensor> CompilableFunction::run(std::span<const Tensor> inputs, OpExecutor& executor) {
  if (inputs.size() != names_.size()) {
    throw InvalidArgument(
        fmt::format("the function takes {} arguments, not {}", names_.size(), inputs.size()));
  }
  if (!is_enabled_) is_enabled_ = support_.is_enabled();
  if (!*is_enabled_) return function_(inputs);
  if (compiled_ == nullptr) {
    compiled_ = std::make_unique<GuardedFunction>(signature_of(inputs), function_);
  }
  return compiled_->run(inputs, executor);
}

bool CompilableFunction::is_dynamic(size_t argument, int dim) const {
  if (support_.dynamic_arg_dims.empty()) return dim == 0;
  return std::any_of(
      support_.dynamic_arg_dims.begin(), support_.dynamic_arg_dims.end(), [&](const auto& dynamic) {
        return dynamic.argument == names_[argument] && dynamic.dim == dim;
      });
}

TraceSignature CompilableFunction::signature_of(std::span<const Tensor> inputs) const {
  TraceSignature signature;
  // Dynamic dimensions of equal size get the same symbol, because they are assumed to be the rows
  // of one batch. Each further size gets the next symbol.
  std::vector<std::pair<int64_t, Symbol>> symbols;
  const auto symbol_of = [&](int64_t size) {
    for (const auto& [known, symbol] : symbols) {
      if (known == size) return symbol;
    }
    constexpr std::array kOpen = {Symbol::num_tokens, Symbol::num_reqs, Symbol::num_logits};
    if (symbols.size() == kOpen.size()) {
      throw InvalidArgument("more than three different dynamic sizes; name them explicitly");
    }
    symbols.emplace_back(size, kOpen[symbols.size()]);
    return symbols.back().second;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueType type{.dtype = inputs[i].dtype(), .shape = {}, .layout = inputs[i].layout()};
    for (int dim = 0; dim < inputs[i].rank(); ++dim) {
      const int64_t size = inputs[i].size(dim);
      type.shape.push_back(is_dynamic(i, dim) ? SymInt(symbol_of(size)) : SymInt(size));
    }
    signature.inputs.push_back({names_[i], type});
  }
  signature.states = memory_.states;
  signature.parameter_memory = memory_.parameter_memory;
  return signature;
}

}  // namespace reprise::program
