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

/// symbols[p][g] names the function in an object that computes group g of program p. An empty name
/// means that the group has no code.
using GroupSymbols = std::vector<std::vector<std::string>>;

/// Loads `object` with `loader` and makes its functions the code of the groups of `program`. The
/// program then owns the loaded code. \throws ArtifactError if there are symbols but no object, and
/// the exceptions of the loader
void attach_code(CompiledProgram& program,
                 std::span<const std::byte> object,
                 const GroupSymbols& symbols,
                 const device::CodeLoader& loader = cpu_code_loader());

/// Equal programs give equal bytes.
[[nodiscard]] Artifact to_artifact(const CompiledProgram& program,
                                   std::span<const std::byte> object);

/// Reads the bytes that to_artifact() wrote. Needs no compiler. Checks everything (ranges of
/// numbers, programs, types of boundary values), so bytes from any source give either a program
/// that can run, or an error. \throws ArtifactError, and the exceptions of the loader
[[nodiscard]] CompiledProgram from_artifact(const Artifact& artifact,
                                            const device::CodeLoader& loader = cpu_code_loader(),
                                            std::span<const CustomOp* const> custom_ops = {});

/// Must be increased when the meaning of the bytes changes.
inline constexpr int kArtifactVersion = 1;

}  // namespace reprise::program
