#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/program/program.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::compile {

/// A rewriting of programs that a user of the library writes. `inductor_passes` names it and
/// chooses when it runs. Unlike the passes of this project, it may change results.
struct UserPass {
  std::string name;  // an identifier, unique in Extensions
  /// Part of the key of the compile cache, like the uuid of vLLM's passes: give it a new value when
  /// the pass rewrites differently.
  std::string uuid;
  /// Rewrites the program and returns the number of matches. The inputs, parameters and states of
  /// the program must stay. If this throws an exception, the engine runs the model's own code.
  std::function<size_t(program::Program&)> apply;
};

/// A code generator that a user of the library writes. `backend` names it.
struct UserCompiler {
  std::string name;  // an identifier, unique in Extensions
  /// Makes a compiler for code of this target: an instruction set of the CPU ("avx512_bf16"), or a
  /// GPU architecture ("sm_90"). Every start calls it, so it should be quick. nullptr: there is no
  /// code for this target, and the ops of row groups run one by one.
  std::function<std::unique_ptr<CompilerInterface>(std::string_view target)> create;
};

/// The ops, passes and code generators that a user of the library adds to the compiler. A program
/// that embeds the engine puts them into EngineArgs; a plug-in adds its own when it is loaded
/// (extension_plugin.h). The set is complete before an engine starts and does not change
/// afterwards.
class Extensions {
 public:
  /// Each throws InvalidArgument if the name is not usable or already taken, or a function is
  /// missing.
  void add_op(CustomOp op);
  void add_pass(UserPass pass);
  void add_compiler(UserCompiler compiler);

  /// nullptr: there is no op of that name. The objects keep their addresses while a copy of this
  /// set exists.
  [[nodiscard]] const CustomOp* find_op(std::string_view name) const noexcept;
  [[nodiscard]] const UserPass* find_pass(std::string_view name) const noexcept;
  [[nodiscard]] const UserCompiler* find_compiler(std::string_view name) const noexcept;

  [[nodiscard]] std::vector<const CustomOp*> ops() const;
  [[nodiscard]] std::vector<std::string> pass_names() const;
  [[nodiscard]] std::vector<std::string> compiler_names() const;

 private:
  // By pointer, because programs and graphs keep the addresses of ops.
  std::vector<std::shared_ptr<const CustomOp>> ops_;
  std::vector<std::shared_ptr<const UserPass>> passes_;
  std::vector<std::shared_ptr<const UserCompiler>> compilers_;
};

}  // namespace reprise::compile
