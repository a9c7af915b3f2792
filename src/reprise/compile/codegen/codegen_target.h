#pragma once

#include <string>

#include "reprise/kernels/isa.h"

/// What code for an instruction set may use, said without LLVM.
namespace reprise::compile {

/// Floats of one vector: kLanes of kernels/vector/*.inl.
[[nodiscard]] int lanes_of(kernels::Isa isa) noexcept;

/// LLVM's names of the instructions that the precompiled kernels of `isa` use: the flags of
/// kernels/CMakeLists.txt. Never a CPU's name: LLVM takes some machines for others, and names
/// differ where code does not.
[[nodiscard]] const char* target_features(kernels::Isa isa) noexcept;
inline constexpr const char* kTargetCpu = "x86-64";

/// What compute_hash() of the plug-in's compiler would say: a warm start looks for its code by this
/// and need not load the plug-in. Empty in a build without it.
[[nodiscard]] std::string codegen_identity(kernels::Isa isa);

}  // namespace reprise::compile
