#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::config {

struct ExtensionNames;

/// The compile level (`mode` in the configuration). vLLM's older names NO_COMPILATION,
/// DYNAMO_AS_IS, DYNAMO_ONCE and PIECEWISE are also read.
enum class CompilationMode : uint8_t {
  NONE = 0,
  STOCK_TORCH_COMPILE = 1,
  DYNAMO_TRACE_ONCE = 2,
  VLLM_COMPILE = 3,
};

enum class DynamicShapesType : uint8_t { backed, unbacked, backed_size_oblivious };

/// -O0 to -O3. The optimisation level gives values to the fields that the user left unset.
enum class OptimizationLevel : uint8_t { O0 = 0, O1 = 1, O2 = 2, O3 = 3 };

[[nodiscard]] std::string_view to_string(CompilationMode mode) noexcept;
[[nodiscard]] std::string_view to_string(DynamicShapesType type) noexcept;
[[nodiscard]] std::string_view to_string(OptimizationLevel level) noexcept;

/// Reads "2", "O2" or "-O2". \throws InvalidArgument
[[nodiscard]] OptimizationLevel parse_optimization_level(std::string_view text);
/// Reads a current or an older name in upper or lower case, or "0" to "3". \throws InvalidArgument
[[nodiscard]] CompilationMode parse_compilation_mode(std::string_view text);

struct DynamicShapesConfig {
  DynamicShapesType type = DynamicShapesType::backed;
  bool evaluate_guards = false;
  bool assume_32_bit_indexing = false;

  friend bool operator==(const DynamicShapesConfig&, const DynamicShapesConfig&) = default;
};

/// Switches of the fusion passes. The optimisation level sets those that are unset.
struct PassConfig {
  std::optional<bool> fuse_norm_quant;
  std::optional<bool> fuse_act_quant;
  std::optional<bool> fuse_act_padding;
  std::optional<bool> fuse_mla_dual_rms_norm;
  std::optional<bool> fuse_allreduce_rms;
  std::optional<bool> fuse_attn_quant;
  std::optional<bool> enable_sp;
  std::optional<bool> fuse_gemm_comms;
  std::optional<bool> enable_qk_norm_rope_fusion;
  std::optional<bool> fuse_rope_kvcache;
  std::optional<bool> fuse_qk_norm_rope_kvcache;
  std::optional<bool> fuse_rope_kvcache_cat_mla;
  bool eliminate_noops = true;
  int32_t rope_kvcache_fusion_max_token_num = 256;
  std::optional<double> fi_allreduce_fusion_max_size_mb;
  std::optional<int32_t> sp_min_token_num;

  friend bool operator==(const PassConfig&, const PassConfig&) = default;
};

/// `compile_sizes`: a list of numbers, the text "cudagraph_capture_sizes" (all capture sizes), or
/// both.
struct CompileSizes {
  std::vector<int32_t> sizes;
  bool include_capture_sizes = false;

  friend bool operator==(const CompileSizes&, const CompileSizes&) = default;
};

/// The `--compilation-config` object as the user set it, before the resolution changes anything.
/// Names of fields and defaults are vLLM's. Exceptions: `capture_size_rule` is Reprise's own, and
/// `cuda_graph_sizes` is ATOM's.
struct CompilationConfig : cudagraph::CaptureSizeRequest {
  std::optional<CompilationMode> mode;
  std::optional<cudagraph::CudagraphMode> cudagraph_mode;
  int32_t cudagraph_num_of_warmups = 0;
  bool cudagraph_copy_inputs = false;   // PIECEWISE only
  bool cudagraph_lazy_capture = false;  // capture a graph when a batch first needs it
  bool cudagraph_specialize_lora = true;
  std::optional<std::vector<std::string>> splitting_ops;  // unset = automatic, [] = no splitting
  bool use_inductor = true;
  std::optional<bool> use_inductor_graph_partition;
  std::optional<CompileSizes> compile_sizes;
  std::optional<std::vector<int32_t>> compile_ranges_endpoints;
  std::vector<std::string> custom_ops;  // "all", "none", "+name", "-name"
  std::string backend;
  PassConfig pass_config;
  DynamicShapesConfig dynamic_shapes_config;
  /// Only max_autotune and max_autotune_gemm have a meaning here: see wants_autotuning().
  Json inductor_compile_config = Json::object();
  Json inductor_passes = Json::object();
  std::string cache_dir;
  std::string debug_dump_path;
  std::string compile_cache_save_format = "binary";  // or "unpacked"
  bool compile_mm_encoder = false;
  bool cudagraph_mm_encoder = false;
  std::vector<int32_t> encoder_cudagraph_token_budgets;
  int32_t encoder_cudagraph_max_vision_items_per_batch = 0;
  std::optional<int32_t> encoder_cudagraph_max_frames_per_batch;
  std::optional<bool> ir_enable_torch_wrap;
  std::optional<bool> fast_moe_cold_start;

  /// Whether inductor_compile_config asks for kernels that are chosen by measurement: max_autotune
  /// or max_autotune_gemm. For the engine this is the option --tune.
  [[nodiscard]] bool wants_autotuning() const;

  friend bool operator==(const CompilationConfig&, const CompilationConfig&) = default;
};

struct ParsedCompilationConfig {
  CompilationConfig config;
  std::vector<std::string> warnings;  // about deprecated names and about fields that have no effect
};

/// Reads a JSON object, an integer (the compile level), or a text that contains one of these as
/// JSON. Also reads the legacy keys level, use_cudagraph, full_cuda_graph and
/// separate_attention_routine.
/// \throws InvalidArgument for an unknown key or value (names the nearest known one), a wrong type
/// (names the expected and the given type), a pass or compiler that neither the engine nor `names`
/// has, or two settings that contradict each other (names both)
[[nodiscard]] ParsedCompilationConfig parse_compilation_config(const Json& document,
                                                               const ExtensionNames& names);
[[nodiscard]] ParsedCompilationConfig parse_compilation_config(const Json& document);

/// Writes every field; unset fields become null. parse_compilation_config() reads the same
/// configuration back.
[[nodiscard]] Json to_json(const CompilationConfig& config);

/// Checks conditions that depend on no other configuration: the syntax of lists, ranges of numbers,
/// conflicts in custom_ops. \throws InvalidArgument
void validate(const CompilationConfig& config, const ExtensionNames& names);
void validate(const CompilationConfig& config);

}  // namespace reprise::config
