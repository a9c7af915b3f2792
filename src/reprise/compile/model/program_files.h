#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reprise/compile/cache/cache_entry.h"
#include "reprise/device/code_loader.h"
#include "reprise/program/artifact.h"
#include "reprise/program/ranged_programs.h"

/// A model's compiled programs as the files of a cache entry: ranges.json says which program runs
/// which batches; each program has a file for itself and one for its generated code.
namespace reprise::compile {

using ProgramFiles = std::vector<CacheFile>;

/// Adds the files of `program`, which is the `index`-th, and of its code.
void add_program(ProgramFiles& files, size_t index, program::Artifact artifact);
void add_ranges(ProgramFiles& files, const std::vector<program::ProgramRange>& ranges);
/// The index of the added program with these bytes; `num_programs` when there is none.
[[nodiscard]] size_t find_program(const ProgramFiles& files,
                                  size_t num_programs,
                                  const std::string& bytes);

/// \throws program::ArtifactError, device::CodeLoadError
[[nodiscard]] program::RangedPrograms load_programs(const ProgramFiles& files,
                                                    const device::CodeLoader& loader);

}  // namespace reprise::compile
