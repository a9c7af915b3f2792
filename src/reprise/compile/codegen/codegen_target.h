#pragma once

#include <string>

#include "reprise/kernels/isa.h"

/// Describes the code that each instruction set allows, without using LLVM.
namespace reprise::compile {

/// Floats of one vector; equals kLanes of kernels/vector/*.inl.
[[nodiscard]] int lanes_of(kernels::Isa isa) noexcept;

/// LLVM's names of the instructions that the precompiled kernels of `isa` use: the flags of
/// kernels/CMakeLists.txt. The name of a CPU is never used, because LLVM detects some machines
/// wrongly and different names can mean the same code.
[[nodiscard]] const char* target_features(kernels::Isa isa) noexcept;
inline constexpr const char* kTargetCpu = "x86-64";

/// The result of compute_hash() of the plug-in's compiler, computed without loading the plug-in: a
/// warm start finds its cached code with it. Empty in a build without the plug-in.
[[nodiscard]] std::string codegen_identity(kernels::Isa isa);

}  // namespace reprise::compile
