#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// Generates code for one instruction set of x86-64 with LLVM. See CompilerInterface.
class LlvmCompiler final : public CompilerInterface {
 public:
  /// \throws CodegenError if this LLVM cannot make code for x86-64
  explicit LlvmCompiler(kernels::Isa isa);

  [[nodiscard]] std::string_view name() const noexcept override { return "llvm"; }
  [[nodiscard]] std::string compute_hash() const override;
  [[nodiscard]] std::optional<std::string> why_not(const program::Program& body) const override;
  [[nodiscard]] std::vector<std::byte> compile(std::span<const RowGroupSource> sources) override;
  [[nodiscard]] CodegenListing list(std::span<const RowGroupSource> sources) override;

 private:
  [[nodiscard]] std::unique_ptr<llvm::Module> make_module(llvm::LLVMContext& context,
                                                          std::span<const RowGroupSource> sources);
  [[nodiscard]] llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::CodeGenFileType type);

  kernels::Isa isa_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace reprise::compile
