#pragma once

#include <functional>
#include <string>
#include <vector>

namespace reprise {

/// How a model may be compiled. The defaults suit nearly every model, so one line opts a model in.
/// Source: vLLM's @support_torch_compile(dynamic_arg_dims, enable_if) and its
/// do_not_compile.
struct CompileSupport {
  /// A dimension of an argument whose size differs between calls.
  struct DynamicDim {
    std::string argument;
    int dim = 0;
  };
  /// Empty: dimension 0 of every tensor argument, which counts its rows.
  std::vector<DynamicDim> dynamic_arg_dims;
  /// Called once, before the model is traced. Empty means yes.
  std::function<bool()> enable_if;
  /// The model is never compiled: its own code runs at every level.
  bool do_not_compile = false;

  [[nodiscard]] bool is_enabled() const { return !do_not_compile && (!enable_if || enable_if()); }
};

}  // namespace reprise
