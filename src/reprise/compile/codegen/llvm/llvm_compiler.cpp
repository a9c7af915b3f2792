#include "reprise/compile/codegen/llvm/llvm_compiler.h"

#include <fmt/format.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <cstring>

#include "reprise/compile/codegen/codegen_target.h"
#include "reprise/compile/codegen/llvm/row_emitter.h"
#include "reprise/compile/codegen/row_loops.h"

namespace reprise::compile {
namespace {

using kernels::Isa;

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

std::unique_ptr<llvm::TargetMachine> create_machine(Isa isa) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (target == nullptr) throw CodegenError("LLVM: " + error);
  llvm::TargetOptions options;
  // Fuse a product and a sum only where the kernels do it explicitly, because fusing changes bits.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(kTriple,
                                  kTargetCpu,
                                  target_features(isa),
                                  options,
                                  llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small,
                                  llvm::CodeGenOptLevel::Less));
  if (machine == nullptr) throw CodegenError("LLVM: no code for x86-64");
  return machine;
}

void set_target(llvm::Function& function, Isa isa) {
  const std::string bits = std::to_string(32 * lanes_of(isa));
  function.addFnAttr("target-cpu", kTargetCpu);
  function.addFnAttr("target-features", target_features(isa));
  function.addFnAttr("prefer-vector-width", bits);
  function.addFnAttr("min-legal-vector-width", bits);
}

void verify(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) {
    throw CodegenError("LLVM refuses generated code: " + message);
  }
}

RowLoops loops_of(const RowGroupSource& source, Isa isa) {
  auto loops = choose_row_loops(*source.body, lanes_of(isa));
  if (const auto* reason = std::get_if<std::string>(&loops)) {
    throw CodegenError(fmt::format("no code for {}: {}", source.symbol, *reason));
  }
  return std::move(std::get<RowLoops>(loops));
}

}  // namespace

LlvmCompiler::LlvmCompiler(Isa isa) : isa_(isa), machine_(create_machine(isa)) {}

std::string LlvmCompiler::compute_hash() const { return codegen_identity(isa_); }

std::optional<std::string> LlvmCompiler::why_not(const program::Program& body) const {
  auto loops = choose_row_loops(body, lanes_of(isa_));
  if (auto* reason = std::get_if<std::string>(&loops)) return std::move(*reason);
  return std::nullopt;
}

std::unique_ptr<llvm::Module> LlvmCompiler::make_module(llvm::LLVMContext& context,
                                                        std::span<const RowGroupSource> sources) {
  auto module = std::make_unique<llvm::Module>("row_groups", context);
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine_->createDataLayout());
  module->setPICLevel(llvm::PICLevel::SmallPIC);
  for (const RowGroupSource& source : sources) {
    const RowLoops loops = loops_of(source, isa_);
    set_target(*RowEmitter(*module, loops, isa_).emit(source.symbol), isa_);
  }
  verify(*module);
  return module;
}

llvm::SmallVector<char, 0> LlvmCompiler::emit(llvm::Module& module, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> file;
  llvm::raw_svector_ostream stream(file);
  llvm::legacy::PassManager passes;
  if (machine_->addPassesToEmitFile(passes, stream, nullptr, type)) {
    throw CodegenError("LLVM: no such file for x86-64");
  }
  passes.run(module);
  return file;
}

std::vector<std::byte> LlvmCompiler::compile(std::span<const RowGroupSource> sources) {
  llvm::LLVMContext context;
  const auto module = make_module(context, sources);
  const llvm::SmallVector<char, 0> object = emit(*module, llvm::CodeGenFileType::ObjectFile);
  std::vector<std::byte> bytes(object.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), object.data(), bytes.size());
  return bytes;
}

CodegenListing LlvmCompiler::list(std::span<const RowGroupSource> sources) {
  llvm::LLVMContext context;
  const auto module = make_module(context, sources);
  CodegenListing listing;
  llvm::raw_string_ostream stream(listing.ir);
  module->print(stream, nullptr);
  const llvm::SmallVector<char, 0> text = emit(*module, llvm::CodeGenFileType::AssemblyFile);
  listing.assembly.assign(text.begin(), text.end());
  return listing;
}

}  // namespace reprise::compile
