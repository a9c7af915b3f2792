#include "reprise/config/legacy_compilation_keys.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/config/compilation_config.h"

namespace reprise::config {
namespace {

constexpr std::array<std::string_view, 5> kLegacyKeys = {"level",
                                                         "use_cudagraph",
                                                         "full_cuda_graph",
                                                         "separate_attention_routine",
                                                         "cudagraph_separate_routine"};

/// The older names of the switches in pass_config. `enable_fusion` stands for two of today's.
struct OldPassName {
  std::string_view old_name;
  std::array<std::string_view, 2> names;
};
constexpr auto kOldPassNames = std::to_array<OldPassName>({
    {"enable_fusion", {"fuse_norm_quant", "fuse_act_quant"}},
    {"enable_attn_fusion", {"fuse_attn_quant"}},
    {"enable_noop", {"eliminate_noops"}},
    {"enable_sequence_parallelism", {"enable_sp"}},
    {"enable_async_tp", {"fuse_gemm_comms"}},
    {"enable_fi_allreduce_fusion", {"fuse_allreduce_rms"}},
});

std::optional<bool> take_bool(Json& document, const char* key) {
  const auto found = document.find(key);
  if (found == document.end()) return std::nullopt;
  if (!found->is_boolean()) {
    throw InvalidArgument(
        fmt::format("{}: expected true or false, got {}", key, found->type_name()));
  }
  const bool value = found->get<bool>();
  document.erase(key);
  return value;
}

// Reads the value of one current key by reading a configuration that has only this key.
CompilationConfig config_of(std::string_view key, const Json& value) {
  Json document = Json::object();
  document[std::string(key)] = value;
  return parse_compilation_config(document).config;
}

bool is_set(const Json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && !found->is_null();
}

[[noreturn]] void throw_contradiction(std::string_view first,
                                      std::string_view second,
                                      std::string_view advice) {
  throw InvalidArgument(fmt::format("{} and {} contradict each other; {}", first, second, advice));
}

void map_level(Json& document, std::vector<std::string>& warnings) {
  if (!document.contains("level")) return;
  const std::optional<CompilationMode> level = config_of("mode", document["level"]).mode;
  document.erase("level");
  if (!level) return;
  if (!is_set(document, "mode")) document["mode"] = std::string(to_string(*level));
  const CompilationMode mode = *config_of("mode", document["mode"]).mode;
  if (mode != *level) {
    throw_contradiction(fmt::format("level={}", to_string(*level)),
                        fmt::format("mode={}", to_string(mode)),
                        "keep mode, the current name");
  }
  warnings.push_back(fmt::format("\"level\" is the old name of \"mode\": write \"mode\": \"{}\"",
                                 to_string(*level)));
}

void map_pass_names(Json& document, std::vector<std::string>& warnings) {
  const auto passes = document.find("pass_config");
  if (passes == document.end() || !passes->is_object()) return;
  for (const OldPassName& old : kOldPassNames) {
    const auto found = passes->find(old.old_name);
    if (found == passes->end()) continue;
    const Json value = std::move(*found);
    passes->erase(std::string(old.old_name));
    std::string written;
    for (const std::string_view name : old.names) {
      if (name.empty()) continue;
      const auto current = passes->find(name);
      if (current != passes->end() && !current->is_null() && *current != value) {
        throw_contradiction(fmt::format("pass_config.{}={}", old.old_name, value.dump()),
                            fmt::format("pass_config.{}={}", name, current->dump()),
                            "keep the second, the current name");
      }
      (*passes)[std::string(name)] = value;
      written += fmt::format("{}\"{}\": {}", written.empty() ? "" : ", ", name, value.dump());
    }
    warnings.push_back(
        fmt::format("pass_config.{} is an old spelling: write {}", old.old_name, written));
  }
}

/// Both names of one flag: the pull request that introduced cudagraph_mode also renamed this flag
/// once.
void map_separate_routine(Json& document) {
  const auto found = document.find("cudagraph_separate_routine");
  if (found == document.end()) return;
  const Json value = std::move(*found);
  document.erase("cudagraph_separate_routine");
  const auto other = document.find("separate_attention_routine");
  if (other != document.end() && *other != value) {
    throw_contradiction(fmt::format("cudagraph_separate_routine={}", value.dump()),
                        fmt::format("separate_attention_routine={}", other->dump()),
                        "they are two old names of one flag");
  }
  document["separate_attention_routine"] = value;
}

/// The flags that existed before cudagraph_mode, and the mode that they stand for. A full graph
/// with separate routines means two sets of FULL graphs if the attention backend holds them, and
/// otherwise the mode that FULL_AND_FULL resolves to. Source: vLLM's pull request 20059.
struct GraphFlags {
  std::optional<bool> use_cudagraph;
  std::optional<bool> full_cuda_graph;
  std::optional<bool> separate_attention_routine;

  [[nodiscard]] cudagraph::CudagraphMode mode() const {
    if (use_cudagraph == false) return cudagraph::CudagraphMode::NONE;
    if (full_cuda_graph != true) return cudagraph::CudagraphMode::PIECEWISE;
    return separate_attention_routine == true ? cudagraph::CudagraphMode::FULL_AND_FULL
                                              : cudagraph::CudagraphMode::FULL;
  }

  /// The flag that decided mode(), with its value as the user wrote it.
  [[nodiscard]] std::string_view deciding() const {
    if (use_cudagraph == false) return "use_cudagraph=false";
    if (full_cuda_graph == true && separate_attention_routine == true) {
      return "full_cuda_graph=true with separate_attention_routine=true";
    }
    if (full_cuda_graph == true) return "full_cuda_graph=true";
    return use_cudagraph ? "use_cudagraph=true" : "full_cuda_graph=false";
  }

  /// A flag that has its old default value may not be the user's choice, so it never contradicts an
  /// explicit mode.
  [[nodiscard]] bool compatible_with(cudagraph::CudagraphMode explicit_mode) const {
    if (use_cudagraph == false || full_cuda_graph == true) return false;
    return use_cudagraph != true || explicit_mode != cudagraph::CudagraphMode::NONE;
  }
};

void map_graph_flags(Json& document, std::vector<std::string>& warnings) {
  const GraphFlags flags{
      .use_cudagraph = take_bool(document, "use_cudagraph"),
      .full_cuda_graph = take_bool(document, "full_cuda_graph"),
      .separate_attention_routine = take_bool(document, "separate_attention_routine")};
  if (flags.use_cudagraph == false && flags.full_cuda_graph == true) {
    throw_contradiction("use_cudagraph=false",
                        "full_cuda_graph=true",
                        "write \"cudagraph_mode\": \"NONE\" or \"cudagraph_mode\": \"FULL\"");
  }
  const bool has_mode_flag = flags.use_cudagraph || flags.full_cuda_graph;
  if (!has_mode_flag && !flags.separate_attention_routine) return;

  if (is_set(document, "cudagraph_mode")) {
    const cudagraph::CudagraphMode mode =
        *config_of("cudagraph_mode", document["cudagraph_mode"]).cudagraph_mode;
    if (!flags.compatible_with(mode)) {
      throw_contradiction(flags.deciding(),
                          fmt::format("cudagraph_mode={}", to_string(mode)),
                          "keep cudagraph_mode, which replaced the other");
    }
    warnings.push_back(
        fmt::format("use_cudagraph, full_cuda_graph and separate_attention_routine have no effect "
                    "beside \"cudagraph_mode\": \"{}\"; remove them",
                    to_string(mode)));
    return;
  }
  if (!has_mode_flag) {  // separate_attention_routine alone does not choose a mode
    warnings.emplace_back(
        "separate_attention_routine has no effect without full_cuda_graph: write "
        "\"cudagraph_mode\": \"FULL_AND_PIECEWISE\" for separate decode and mixed routines");
    return;
  }
  document["cudagraph_mode"] = std::string(to_string(flags.mode()));
  warnings.push_back(fmt::format("{} is an old spelling: write \"cudagraph_mode\": \"{}\"",
                                 flags.deciding(),
                                 to_string(flags.mode())));
}

}  // namespace

std::span<const std::string_view> legacy_keys() noexcept { return kLegacyKeys; }

void map_legacy_keys(Json& document, std::vector<std::string>& warnings) {
  map_level(document, warnings);
  map_pass_names(document, warnings);
  map_separate_routine(document);
  map_graph_flags(document, warnings);
}

}  // namespace reprise::config
