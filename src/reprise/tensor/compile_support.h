#pragma once

#include <functional>
#include <string>
#include <vector>

namespace reprise {

/// What a model says about being compiled; the defaults are what nearly every model wants, so that
/// one line opts it in. Source: vLLM's @support_torch_compile(dynamic_arg_dims, enable_if) and its
/// do_not_compile.
struct CompileSupport {
  /// A dimension of an argument that differs from call to call.
  struct DynamicDim {
    std::string argument;
    int dim = 0;
  };
  /// Nothing: dimension 0 of every tensor argument, which is its rows.
  std::vector<DynamicDim> dynamic_arg_dims;
  /// Asked once, before the model would be traced; empty = yes.
  std::function<bool()> enable_if;
  /// The model's own code runs at every level, directly.
  bool do_not_compile = false;

  [[nodiscard]] bool is_enabled() const { return !do_not_compile && (!enable_if || enable_if()); }
};

}  // namespace reprise
