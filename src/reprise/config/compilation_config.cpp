#include "reprise/config/compilation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/base/python_literal.h"
#include "reprise/config/custom_ops.h"
#include "reprise/config/enum_names.h"
#include "reprise/config/extension_names.h"
#include "reprise/config/legacy_compilation_keys.h"
#include "reprise/config/wrong_type.h"

namespace reprise::config {
namespace {

// The largest capture size. It bounds the dispatch tables, and no scheduler allows this many
// tokens.
constexpr int32_t kLargestSize = 1 << 20;

// The members of inductor_compile_config that have a meaning here.
constexpr std::array<std::string_view, 2> kAutotuneKeys = {"max_autotune", "max_autotune_gemm"};

// ---- the fields of each struct, listed once for reading, writing and the check of names ----

template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& v)
  requires std::same_as<std::remove_const_t<Config>, CompilationConfig>
{
  v("mode", c.mode);
  v("cudagraph_mode", c.cudagraph_mode);
  v("capture_size_rule", c.capture_size_rule);
  v("cudagraph_capture_sizes", c.cudagraph_capture_sizes);
  v("max_cudagraph_capture_size", c.max_cudagraph_capture_size);
  v("max_full_cudagraph_capture_size", c.max_full_cudagraph_capture_size);
  v("cuda_graph_sizes", c.cuda_graph_sizes);
  v("cudagraph_num_of_warmups", c.cudagraph_num_of_warmups);
  v("cudagraph_copy_inputs", c.cudagraph_copy_inputs);
  v("cudagraph_lazy_capture", c.cudagraph_lazy_capture);
  v("cudagraph_specialize_lora", c.cudagraph_specialize_lora);
  v("splitting_ops", c.splitting_ops);
  v("use_inductor", c.use_inductor);
  v("use_inductor_graph_partition", c.use_inductor_graph_partition);
  v("compile_sizes", c.compile_sizes);
  v("compile_ranges_endpoints", c.compile_ranges_endpoints);
  v("custom_ops", c.custom_ops);
  v("backend", c.backend);
  v("pass_config", c.pass_config);
  v("dynamic_shapes_config", c.dynamic_shapes_config);
  v("inductor_compile_config", c.inductor_compile_config);
  v("inductor_passes", c.inductor_passes);
  v("cache_dir", c.cache_dir);
  v("debug_dump_path", c.debug_dump_path);
  v("compile_cache_save_format", c.compile_cache_save_format);
  v("compile_mm_encoder", c.compile_mm_encoder);
  v("cudagraph_mm_encoder", c.cudagraph_mm_encoder);
  v("encoder_cudagraph_token_budgets", c.encoder_cudagraph_token_budgets);
  v("encoder_cudagraph_max_vision_items_per_batch", c.encoder_cudagraph_max_vision_items_per_batch);
  v("encoder_cudagraph_max_frames_per_batch", c.encoder_cudagraph_max_frames_per_batch);
  v("ir_enable_torch_wrap", c.ir_enable_torch_wrap);
  v("fast_moe_cold_start", c.fast_moe_cold_start);
}

template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& v)
  requires std::same_as<std::remove_const_t<Config>, PassConfig>
{
  v("fuse_norm_quant", c.fuse_norm_quant);
  v("fuse_act_quant", c.fuse_act_quant);
  v("fuse_act_padding", c.fuse_act_padding);
  v("fuse_mla_dual_rms_norm", c.fuse_mla_dual_rms_norm);
  v("fuse_allreduce_rms", c.fuse_allreduce_rms);
  v("fuse_attn_quant", c.fuse_attn_quant);
  v("enable_sp", c.enable_sp);
  v("fuse_gemm_comms", c.fuse_gemm_comms);
  v("enable_qk_norm_rope_fusion", c.enable_qk_norm_rope_fusion);
  v("fuse_rope_kvcache", c.fuse_rope_kvcache);
  v("fuse_qk_norm_rope_kvcache", c.fuse_qk_norm_rope_kvcache);
  v("fuse_rope_kvcache_cat_mla", c.fuse_rope_kvcache_cat_mla);
  v("eliminate_noops", c.eliminate_noops);
  v("rope_kvcache_fusion_max_token_num", c.rope_kvcache_fusion_max_token_num);
  v("fi_allreduce_fusion_max_size_mb", c.fi_allreduce_fusion_max_size_mb);
  v("sp_min_token_num", c.sp_min_token_num);
}

template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& v)
  requires std::same_as<std::remove_const_t<Config>, DynamicShapesConfig>
{
  v("type", c.type);
  v("evaluate_guards", c.evaluate_guards);
  v("assume_32_bit_indexing", c.assume_32_bit_indexing);
}

template <class Config>
concept HasFields = requires(Config& c) { visit_fields(c, [](std::string_view, auto&) {}); };

template <class Config>
std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  Config config;
  visit_fields(config, [&](std::string_view name, auto&) { names.push_back(name); });
  return names;
}

// ---- reading ----

// Declared before their definitions, because readers of structs and lists call each other.
template <class Value>
void read(std::string_view field, const Json& value, std::optional<Value>& out);
template <class Element>
void read(std::string_view field, const Json& value, std::vector<Element>& out);

void read(std::string_view field, const Json& value, bool& out) {
  if (!value.is_boolean()) throw_wrong_type(field, "true or false", value);
  out = value.get<bool>();
}

void read(std::string_view field, const Json& value, int32_t& out) {
  if (!value.is_number_integer()) throw_wrong_type(field, "an integer", value);
  const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > INT32_MAX;
  if (too_large || value.get<int64_t>() > INT32_MAX || value.get<int64_t>() < INT32_MIN) {
    throw_wrong_type(field, "an integer of at most 32 bits", value);
  }
  out = value.get<int32_t>();
}

void read(std::string_view field, const Json& value, double& out) {
  if (!value.is_number()) throw_wrong_type(field, "a number", value);
  out = value.get<double>();
}

void read(std::string_view field, const Json& value, std::string& out) {
  if (value.is_null()) {
    out.clear();
    return;
  }
  if (!value.is_string()) throw_wrong_type(field, "text", value);
  out = value.get<std::string>();
}

template <class Enum>
  requires std::is_enum_v<Enum>
void read(std::string_view field, const Json& value, Enum& out) {
  if (value.is_string()) {
    out = enum_from_text<Enum>(field, value.get<std::string>());
  } else if (value.is_number_integer() && EnumTraits<Enum>::largest_integer >= 0) {
    out = enum_from_integer<Enum>(field, value.get<int64_t>());
  } else {
    throw_wrong_type(field, expected_values<Enum>(), value);
  }
}

template <class Element>
void read(std::string_view field, const Json& value, std::vector<Element>& out) {
  if (!value.is_array()) throw_wrong_type(field, "a list", value);
  out.clear();
  for (size_t i = 0; i < value.size(); ++i) {
    read(fmt::format("{}[{}]", field, i), value[i], out.emplace_back());
  }
}

void read(std::string_view field, const Json& value, CompileSizes& out) {
  constexpr std::string_view kAll = "cudagraph_capture_sizes";
  constexpr std::string_view kExpected = "integers or the text \"cudagraph_capture_sizes\"";
  out = {};
  const auto read_one = [&](const Json& entry) {
    if (entry.is_string() && entry.get<std::string>() == kAll) {
      out.include_capture_sizes = true;
    } else if (entry.is_number_integer()) {
      read(field, entry, out.sizes.emplace_back());
    } else {
      throw_wrong_type(field, kExpected, entry);
    }
  };
  if (!value.is_array()) {
    read_one(value);
    return;
  }
  for (const Json& entry : value) read_one(entry);
}

void read(std::string_view field, const Json& value, Json& out) {
  if (!value.is_object()) throw_wrong_type(field, "an object", value);
  out = value;
}

template <HasFields Config>
void read(std::string_view field, const Json& value, Config& out) {
  if (!value.is_object()) throw_wrong_type(field, "an object", value);
  const auto names = field_names<Config>();
  for (const auto& [key, member] : value.items()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      throw InvalidArgument(
          fmt::format("{}: unknown key '{}'{}", field, key, did_you_mean(key, names)));
    }
  }
  visit_fields(out, [&](std::string_view name, auto& member) {
    const auto found = value.find(name);
    if (found == value.end()) return;
    const bool nested = field != "compilation_config";
    read(nested ? fmt::format("{}.{}", field, name) : std::string(name), *found, member);
  });
}

template <class Value>
void read(std::string_view field, const Json& value, std::optional<Value>& out) {
  if (value.is_null()) {
    out.reset();
    return;
  }
  read(field, value, out.emplace());
}

// ---- writing ----

template <class Value>
Json written(const std::optional<Value>& value);

Json written(bool value) { return value; }
Json written(int32_t value) { return value; }
Json written(double value) { return value; }
Json written(const std::string& value) { return value; }
Json written(const Json& value) { return value; }
template <class Enum>
  requires std::is_enum_v<Enum>
Json written(Enum value) {
  return std::string(enum_name(value));
}
template <class Element>
Json written(const std::vector<Element>& value) {
  Json list = Json::array();
  for (const Element& element : value) list.push_back(element);
  return list;
}
Json written(const CompileSizes& value) {
  Json list = written(value.sizes);
  if (value.include_capture_sizes) list.push_back("cudagraph_capture_sizes");
  return list;
}
template <HasFields Config>
Json written(const Config& config);
template <class Value>
Json written(const std::optional<Value>& value) {
  return value ? written(*value) : Json(nullptr);
}
template <HasFields Config>
Json written(const Config& config) {
  Json object = Json::object();
  visit_fields(config, [&](std::string_view name, const auto& member) {
    object[std::string(name)] = written(member);
  });
  return object;
}

// Warns about fields that vLLM has and that are accepted here, but that have no effect in this
// engine.
void warn_about_fields_without_effect(const CompilationConfig& config,
                                      std::vector<std::string>& warnings) {
  const CompilationConfig defaults;
  const auto warn = [&](bool changed, std::string_view field) {
    if (changed) {
      warnings.push_back(fmt::format("{} is accepted but has no effect in this engine", field));
    }
  };
  warn(config.compile_mm_encoder, "compile_mm_encoder");
  warn(config.cudagraph_mm_encoder, "cudagraph_mm_encoder");
  warn(!config.encoder_cudagraph_token_budgets.empty(), "encoder_cudagraph_token_budgets");
  warn(config.encoder_cudagraph_max_vision_items_per_batch != 0,
       "encoder_cudagraph_max_vision_items_per_batch");
  warn(config.encoder_cudagraph_max_frames_per_batch.has_value(),
       "encoder_cudagraph_max_frames_per_batch");
  warn(config.ir_enable_torch_wrap.has_value(), "ir_enable_torch_wrap");
  warn(config.fast_moe_cold_start.has_value(), "fast_moe_cold_start");
  for (const auto& [name, value] : config.inductor_compile_config.items()) {
    if (std::ranges::count(kAutotuneKeys, name) > 0) continue;
    warnings.push_back(fmt::format(
        "inductor_compile_config.{} is accepted but has no effect in this engine: kernels are "
        "compiled with the engine",
        name));
  }
  warn(config.dynamic_shapes_config != defaults.dynamic_shapes_config, "dynamic_shapes_config");
  warn(config.compile_cache_save_format != defaults.compile_cache_save_format,
       "compile_cache_save_format");
  const PassConfig& passes = config.pass_config;
  // In vLLM the next two fields limit the sizes for which fused kernels are used. Reprise's fused
  // kernels work at every size.
  warn(passes.rope_kvcache_fusion_max_token_num !=
           defaults.pass_config.rope_kvcache_fusion_max_token_num,
       "pass_config.rope_kvcache_fusion_max_token_num");
  warn(passes.fi_allreduce_fusion_max_size_mb.has_value(),
       "pass_config.fi_allreduce_fusion_max_size_mb");
  warn(passes.sp_min_token_num && !passes.enable_sp && !passes.fuse_gemm_comms,
       "pass_config.sp_min_token_num without enable_sp");
  warn(passes.fuse_act_padding.value_or(false), "pass_config.fuse_act_padding");
  warn(passes.fuse_mla_dual_rms_norm.value_or(false), "pass_config.fuse_mla_dual_rms_norm");
  warn(passes.fuse_rope_kvcache_cat_mla.value_or(false), "pass_config.fuse_rope_kvcache_cat_mla");
  if (passes.fuse_attn_quant.value_or(false)) {
    warnings.emplace_back(
        "pass_config.fuse_attn_quant fuses on a CPU alone, in models whose checkpoint has static "
        "scales of int8 activations; elsewhere it only decides that attention stays inside the "
        "compiled program");
  }
}

void check_top_level_keys(const Json& document) {
  auto names = field_names<CompilationConfig>();
  names.insert(names.end(), legacy_keys().begin(), legacy_keys().end());
  for (const auto& [key, value] : document.items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    if (key == "enforce_eager") {
      throw InvalidArgument(
          "compilation_config: 'enforce_eager' is an engine option (--enforce-eager), not a member "
          "of compilation_config; here write \"cudagraph_mode\": \"NONE\"");
    }
    throw InvalidArgument(
        fmt::format("compilation_config: unknown key '{}'{}", key, did_you_mean(key, names)));
  }
}

void check_sizes(std::string_view field, const std::vector<int32_t>& sizes) {
  for (int32_t size : sizes) {
    if (size < 1 || size > kLargestSize) {
      throw InvalidArgument(
          fmt::format("{}: expected sizes from 1 to {}, got {}", field, kLargestSize, size));
    }
  }
}

}  // namespace

std::string_view to_string(CompilationMode mode) noexcept { return enum_name(mode); }
std::string_view to_string(DynamicShapesType type) noexcept { return enum_name(type); }

std::string_view to_string(OptimizationLevel level) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"O0", "O1", "O2", "O3"};
  return kNames[static_cast<size_t>(level)];
}

OptimizationLevel parse_optimization_level(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('-')) digits.remove_prefix(1);
  if (digits.starts_with('O') || digits.starts_with('o')) digits.remove_prefix(1);
  if (digits.size() != 1 || digits[0] < '0' || digits[0] > '3') {
    throw InvalidArgument(
        fmt::format("optimization level: expected 0 to 3 (-O0 to -O3), got '{}'", text));
  }
  return static_cast<OptimizationLevel>(digits[0] - '0');
}

CompilationMode parse_compilation_mode(std::string_view text) {
  return enum_from_text<CompilationMode>("mode", text);
}

ParsedCompilationConfig parse_compilation_config(const Json& document,
                                                 const ExtensionNames& names) {
  if (document.is_string()) {
    const Json held =
        parse_json_or_python(document.get_ref<const std::string&>(), "compilation_config");
    if (held.is_string())
      throw_wrong_type("compilation_config", "an object or a level 0 to 3", held);
    return parse_compilation_config(held, names);
  }
  ParsedCompilationConfig parsed;
  if (document.is_number_integer()) {
    parsed.config.mode =
        enum_from_integer<CompilationMode>("compilation_config", document.get<int64_t>());
    return parsed;
  }
  if (!document.is_object()) {
    throw_wrong_type("compilation_config", "an object or a level 0 to 3", document);
  }
  check_top_level_keys(document);
  Json current = document;
  map_legacy_keys(current, parsed.warnings);
  read("compilation_config", current, parsed.config);
  validate(parsed.config, names);
  warn_about_fields_without_effect(parsed.config, parsed.warnings);
  return parsed;
}

ParsedCompilationConfig parse_compilation_config(const Json& document) {
  return parse_compilation_config(document, ExtensionNames{});
}

bool CompilationConfig::wants_autotuning() const {
  return std::ranges::any_of(kAutotuneKeys, [this](std::string_view key) {
    const auto value = inductor_compile_config.find(key);
    return value != inductor_compile_config.end() && *value == true;
  });
}

Json to_json(const CompilationConfig& config) { return written(config); }

void validate(const CompilationConfig& config) { validate(config, ExtensionNames{}); }

void validate(const CompilationConfig& config, const ExtensionNames& names) {
  if (config.cudagraph_capture_sizes) {
    check_sizes("cudagraph_capture_sizes", *config.cudagraph_capture_sizes);
  }
  if (config.cuda_graph_sizes) check_sizes("cuda_graph_sizes", *config.cuda_graph_sizes);
  if (config.compile_sizes) check_sizes("compile_sizes", config.compile_sizes->sizes);
  if (config.compile_ranges_endpoints) {
    check_sizes("compile_ranges_endpoints", *config.compile_ranges_endpoints);
  }
  check_sizes("encoder_cudagraph_token_budgets", config.encoder_cudagraph_token_budgets);
  for (const std::string_view key : kAutotuneKeys) {
    const auto value = config.inductor_compile_config.find(key);
    if (value == config.inductor_compile_config.end() || value->is_boolean()) continue;
    throw InvalidArgument(fmt::format(
        "inductor_compile_config.{}: expected true or false, got {}", key, value->dump()));
  }
  if (config.max_cudagraph_capture_size && (*config.max_cudagraph_capture_size < 0 ||
                                            *config.max_cudagraph_capture_size > kLargestSize)) {
    throw InvalidArgument(fmt::format("max_cudagraph_capture_size: expected 0 to {}, got {}",
                                      kLargestSize,
                                      *config.max_cudagraph_capture_size));
  }
  if (config.max_full_cudagraph_capture_size) {
    check_sizes("max_full_cudagraph_capture_size", {*config.max_full_cudagraph_capture_size});
  }
  if (config.cudagraph_num_of_warmups < 0) {
    throw InvalidArgument(fmt::format("cudagraph_num_of_warmups: expected 0 or more, got {}",
                                      config.cudagraph_num_of_warmups));
  }
  if (config.compile_cache_save_format != "binary" &&
      config.compile_cache_save_format != "unpacked") {
    throw InvalidArgument(
        fmt::format("compile_cache_save_format: expected \"binary\" or \"unpacked\", got \"{}\"",
                    config.compile_cache_save_format));
  }
  // At levels 1 and 2 vLLM accepts more names, because PyTorch has more backends.
  if (config.mode != CompilationMode::NONE) check_backend(config.backend, names);
  check_inductor_passes(config.inductor_passes, names);
  check_custom_ops(config.custom_ops);
}

}  // namespace reprise::config
