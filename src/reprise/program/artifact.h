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

/// A compiled program as bytes: what a cache keeps, and all that a warm start needs.
struct Artifact {
  std::string program;  // JSON: pieces, slots, plan, and the text of each program
  std::string object;   // machine code of the groups, as a loader takes it; empty if there is none
};

/// The bytes are no compiled program of this version.
class ArtifactError : public Error {
 public:
  using Error::Error;
};

/// Functions of an object by program and group; an empty name = no code.
using GroupSymbols = std::vector<std::vector<std::string>>;

/// Points the groups of `program` at functions of `object`, which it then owns where `loader`
/// brought it. \throws ArtifactError for symbols without an object, what the loader throws
void attach_code(CompiledProgram& program,
                 std::span<const std::byte> object,
                 const GroupSymbols& symbols,
                 const device::CodeLoader& loader = cpu_code_loader());

/// Same program, same bytes.
[[nodiscard]] Artifact to_artifact(const CompiledProgram& program,
                                   std::span<const std::byte> object);

/// Reads what to_artifact() wrote. Everything is checked (numbers in range, programs well formed,
/// types of values that pieces hand to each other), so that bytes of any origin are either a
/// program that runs or an error. Loads no compiler. \throws ArtifactError, what the loader throws
[[nodiscard]] CompiledProgram from_artifact(const Artifact& artifact,
                                            const device::CodeLoader& loader = cpu_code_loader(),
                                            std::span<const CustomOp* const> custom_ops = {});

/// Raised with every change of what the bytes mean.
inline constexpr int kArtifactVersion = 1;

}  // namespace reprise::program
