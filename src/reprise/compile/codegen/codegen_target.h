#pragma once

#include <string>

#include "reprise/kernels/isa.h"

/// Describes the target of generated code for each instruction set, without using LLVM.
namespace reprise::compile {

/// The number of floats in a vector; equal to kLanes in kernels/vector/*.inl.
[[nodiscard]] int lanes_of(kernels::Isa isa) noexcept;

/// LLVM's names of the instruction set extensions that the precompiled kernels of `isa` use; the
/// same as in the flags of kernels/CMakeLists.txt. CPU names are not used, because LLVM recognises
/// some machines wrongly and different names can stand for the same code.
[[nodiscard]] const char* target_features(kernels::Isa isa) noexcept;
inline constexpr const char* kTargetCpu = "x86-64";

/// The same text as compute_hash() of the plug-in's compiler, but without loading the plug-in. With
/// it, an engine that starts from the cache finds its generated code. Empty in a build without the
/// plug-in.
[[nodiscard]] std::string codegen_identity(kernels::Isa isa);

}  // namespace reprise::compile
