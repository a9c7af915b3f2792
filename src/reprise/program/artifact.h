#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/code_loader.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/cpu_code_loader.h"

namespace reprise::program {

/// A compiled program as bytes. The compile cache stores these bytes. An engine that starts from
/// the cache needs nothing else, in particular no compiler.
struct Artifact {
  std::string program;  // JSON: pieces, slots, memory plan, and the text of each program
  // Machine code of the row groups, as the loader expects it; empty: no group has code.
  std::string object;
};

/// The bytes are not an artifact of this version, or they are damaged.
class ArtifactError : public Error {
 public:
  using Error::Error;
};

/// Names of functions in an object, by program and group. An empty name means no code.
using GroupSymbols = std::vector<std::vector<std::string>>;

/// Loads `object` with `loader` and points the groups of `program` at its functions. The program
/// then owns the loaded code. \throws ArtifactError for symbols without an object, and what the
/// loader throws
void attach_code(CompiledProgram& program,
                 std::span<const std::byte> object,
                 const GroupSymbols& symbols,
                 const device::CodeLoader& loader = cpu_code_loader());

/// Equal programs give equal bytes.
[[nodiscard]] Artifact to_artifact(const CompiledProgram& program,
                                   std::span<const std::byte> object);

/// Reads the bytes that to_artifact() wrote. It checks everything (ranges of numbers, programs,
/// types of values that pieces hand to each other): bytes of any origin give a program that runs,
/// or an error. It loads no compiler. \throws ArtifactError, and what the loader throws
[[nodiscard]] CompiledProgram from_artifact(const Artifact& artifact,
                                            const device::CodeLoader& loader = cpu_code_loader(),
                                            std::span<const CustomOp* const> custom_ops = {});

/// Increased with every change of the meaning of the bytes.
inline constexpr int kArtifactVersion = 1;

}  // namespace reprise::program
