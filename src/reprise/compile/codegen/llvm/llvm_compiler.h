#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// Code for one instruction set of x86-64, by LLVM. See CompilerInterface.
class LlvmCompiler final : public CompilerInterface {
 public:
  /// \throws CodegenError if this LLVM cannot make code for x86-64
  explicit LlvmCompiler(kernels::Isa isa);

  [[nodiscard]] std::string_view name() const noexcept override { return "llvm"; }
  [[nodiscard]] std::string compute_hash() const override;
  [[nodiscard]] std::optional<std::string> why_not(const program::Program& body) const override;
  [[nodiscard]] std::vector<std::byte> compile(std::span<const RowGroupSource> sources) override;

 private:
  kernels::Isa isa_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace reprise::compile
