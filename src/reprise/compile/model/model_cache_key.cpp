#include "reprise/compile/model/model_cache_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/model/build_identity.h"
#include "reprise/compile/model/pass_choice.h"
#include "reprise/compile/model/user_passes.h"
#include "reprise/kernels/row_group/row_group_arguments.h"
#include "reprise/program/artifact.h"
#include "reprise/program/text.h"

namespace reprise::compile {
namespace {

// The text of a program is exact: floats are printed so that they read back as the same bits.
std::string text_of(const program::Program& traced,
                    std::span<const program::ParameterSlot> parameters) {
  std::string text = program::print(traced);
  for (const program::ParameterSlot& parameter : parameters) {
    fmt::format_to(
        std::back_inserter(text), "{}: {}\n", parameter.name, parameter.type.to_string());
  }
  return text;
}

}  // namespace

const char* sources_hash() noexcept { return kSourcesHash; }

CacheKey model_cache_key(const ModelCompilerOptions& options,
                         const program::Program& traced,
                         std::span<const program::ParameterSlot> parameters) {
  const CodeGenerator* generator = code_generator(options);
  CacheKey key;
  key.add("artifact_version", fmt::to_string(program::kArtifactVersion))
      .add("sources", kSourcesHash)
      .add_digest("program", text_of(traced, parameters))
      .add("level", config::to_string(options.resolved.compilation_mode))
      .add("splitting_ops", fmt::format("{}", fmt::join(options.resolved.splitting_ops, ",")))
      .add("partition_after_passes", fmt::to_string(partitions_after_passes(options)))
      .add("passes", passes_text(options))
      .add("extensions", extensions_text(options))
      .add("codegen", generator != nullptr ? generator->identity : "none")
      .add("codegen_abi", fmt::format("{}.{}", kCodegenAbi, kernels::kRowGroupAbi))
      .add("isa", kernels::isa_name(options.isa));
  return key;
}

}  // namespace reprise::compile
