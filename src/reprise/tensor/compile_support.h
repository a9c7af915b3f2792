#pragma once

#include <functional>
#include <string>
#include <vector>

namespace reprise {

/// How a model may be compiled. The defaults suit nearly every model, so a model declares its
/// support in one line. Source: vLLM's @support_torch_compile(dynamic_arg_dims, enable_if) and
/// do_not_compile.
struct CompileSupport {
  /// A dimension of an argument whose size may differ from call to call.
  struct DynamicDim {
    std::string argument;
    int dim = 0;
  };
  /// Empty: dimension 0 of every tensor argument is dynamic.
  std::vector<DynamicDim> dynamic_arg_dims;
  /// Called once, before the model is traced; false: the model is not compiled. An empty function
  /// counts as true.
  std::function<bool()> enable_if;
  /// true: the model is never compiled. Its own code runs at every level.
  bool do_not_compile = false;

  [[nodiscard]] bool is_enabled() const { return !do_not_compile && (!enable_if || enable_if()); }
};

}  // namespace reprise
