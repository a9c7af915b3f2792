#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reprise/compile/cache/cache_entry.h"
#include "reprise/device/code_loader.h"
#include "reprise/program/artifact.h"
#include "reprise/program/ranged_programs.h"
#include "reprise/tensor/custom_op.h"

/// A model's compiled programs as the files of a cache entry. ranges.json says which batches each
/// program serves. Each program has one file for the program itself and one file for its generated
/// code.
namespace reprise::compile {

using ProgramFiles = std::vector<CacheFile>;

/// Adds the files of the program with number `index`, and of its code.
void add_program(ProgramFiles& files, size_t index, program::Artifact artifact);
void add_ranges(ProgramFiles& files, const std::vector<program::ProgramRange>& ranges);
/// The index of an added program with the same bytes, or `num_programs` if there is none.
[[nodiscard]] size_t find_program(const ProgramFiles& files,
                                  size_t num_programs,
                                  const std::string& bytes);

/// `custom_ops` are those that the programs may name. \throws program::ArtifactError,
/// device::CodeLoadError
[[nodiscard]] program::RangedPrograms load_programs(const ProgramFiles& files,
                                                    const device::CodeLoader& loader,
                                                    std::span<const CustomOp* const> custom_ops);

}  // namespace reprise::compile
