#include "reprise/api/compile_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "reprise/api/build_identity.h"
#include "reprise/base/error.h"
#include "reprise/compile/cache/compile_cache.h"
#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/compile_program.h"
#include "reprise/compile/report/launch_count.h"
#include "reprise/kernels/linear_rope_kv_write/linear_rope_kv_write.h"
#include "reprise/kernels/row_group/row_group_arguments.h"
#include "reprise/program/artifact.h"
#include "reprise/program/cpu_code_loader.h"
#include "reprise/tensor/aliasing.h"

namespace reprise::api {
namespace {

using config::CompilationMode;

// Files of a cache entry: which program runs which batches, then each program and its code.
constexpr const char* kRangesFile = "ranges.json";
std::string program_file(size_t index) { return fmt::format("program_{}.json", index); }
std::string object_file(size_t index) { return fmt::format("kernels_{}.o", index); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_on(const char* name) {
  const std::string value = environment(name);
  return value == "1" || value == "true";
}

// ---- which backend ----

bool wants_code(const config::CompilationConfig& compilation) {
  return compilation.use_inductor && compilation.backend != "eager";
}

// Null where no code is wanted, or can be had.
const CodeGenerator* generator_of(const CompileInputs& inputs) {
  const bool is_wanted = wants_code(inputs.compilation) && inputs.generator.has_value();
  return is_wanted ? &*inputs.generator : nullptr;
}

const device::CodeLoader& loader_of(const CompileInputs& inputs) {
  const CodeGenerator* generator = generator_of(inputs);
  return generator != nullptr ? *generator->loader : program::cpu_code_loader();
}

// ---- which passes ----

bool is_split(const CompileInputs& inputs) {
  return inputs.resolved.compilation_mode == CompilationMode::VLLM_COMPILE;
}

bool partitions_after_passes(const CompileInputs& inputs) {
  // Levels 1 and 2 compile the whole program; what is cut afterwards only tells captures where to
  // break.
  return !is_split(inputs) || inputs.compilation.use_inductor_graph_partition.value_or(false);
}

// One range for each exact size, then those between the endpoints: [8, 32] makes 1..8, 9..32 and
// 33 upwards. Source: vLLM's compile ranges.
std::vector<compile::CompileRange> compile_ranges(const CompileInputs& inputs) {
  std::vector<compile::CompileRange> ranges;
  if (is_split(inputs)) {
    for (int32_t size : inputs.resolved.compile_sizes)
      ranges.push_back({.begin = size, .end = size});
  }
  int64_t begin = 1;
  if (is_split(inputs)) {
    std::vector<int32_t> ends =
        inputs.compilation.compile_ranges_endpoints.value_or(std::vector<int32_t>{});
    // Few rows are compiled for kernels of few rows.
    ends.push_back(static_cast<int32_t>(inputs.norm_prologue_max_token_num));
    std::sort(ends.begin(), ends.end());
    for (int32_t end : ends) {
      if (end < begin) continue;  // given twice
      ranges.push_back({.begin = begin, .end = end});
      begin = int64_t{end} + 1;
    }
  }
  ranges.push_back({.begin = begin});
  return ranges;
}

// Level 3 has all; levels 1 and 2 what needs to know no pattern, as vLLM's stock compile.
compile::PassOptions pass_options(const CompileInputs& inputs,
                                  const compile::CompileRange& range,
                                  bool generates_code) {
  const config::PassConfig& wish = inputs.resolved.pass_config;
  const bool has_patterns = is_split(inputs);
  const auto on = [&](const std::optional<bool>& flag) {
    return has_patterns && flag.value_or(false);
  };
  compile::PassOptions options;
  options.range = range;
  options.eliminate_noops = wish.eliminate_noops;
  options.fuse_norm_quant = on(wish.fuse_norm_quant);
  options.fuse_act_quant = on(wish.fuse_act_quant);
  options.fuse_attn_quant = on(wish.fuse_attn_quant);
  options.fuse_allreduce_rms = on(wish.fuse_allreduce_rms);
  options.enable_sp = on(wish.enable_sp);
  options.fuse_gemm_comms = on(wish.fuse_gemm_comms);
  options.fuse_rope_kvcache = on(wish.fuse_rope_kvcache);
  options.fuse_qk_norm_rope_kvcache = on(wish.fuse_qk_norm_rope_kvcache);
  options.rope_kvcache_fusion_max_token_num = 0;  // a CPU gains at any size
  options.sp_min_token_num = wish.sp_min_token_num;
  options.fuse_add_rms_norm = has_patterns;
  options.fuse_gemm_epilogues = has_patterns;
  options.norm_prologue_max_token_num = has_patterns ? inputs.norm_prologue_max_token_num : 0;
  // Then the norm is the product's behind it, and the sum that of the product ahead.
  options.prefer_linear_add =
      options.norm_prologue_max_token_num > 0 && range.end <= options.norm_prologue_max_token_num;
  options.group_rows = generates_code;
  return options;
}

// Every field that decides what the passes do, for the cache's key.
std::string to_text(const compile::PassOptions& options) {
  return fmt::format("{}",
                     fmt::join({options.range.begin,
                                options.range.end,
                                int64_t{options.eliminate_noops},
                                int64_t{options.fuse_norm_quant},
                                int64_t{options.fuse_act_quant},
                                int64_t{options.fuse_attn_quant},
                                int64_t{options.fuse_allreduce_rms},
                                int64_t{options.enable_sp},
                                int64_t{options.fuse_gemm_comms},
                                int64_t{options.fuse_rope_kvcache},
                                int64_t{options.fuse_qk_norm_rope_kvcache},
                                options.rope_kvcache_fusion_max_token_num,
                                options.sp_min_token_num.value_or(-1),
                                int64_t{options.fuse_add_rms_norm},
                                int64_t{options.fuse_gemm_epilogues},
                                int64_t{options.prefer_linear_add},
                                options.norm_prologue_max_token_num,
                                int64_t{options.group_rows}},
                               ","));
}

std::string passes_text(const CompileInputs& inputs, bool generates_code) {
  std::string text;
  for (const compile::CompileRange& range : compile_ranges(inputs)) {
    text += to_text(pass_options(inputs, range, generates_code)) + ";";
  }
  return text;
}

// Level 1 with backend "eager" is there to compare the program with the model.
bool stays_as_traced(const CompileInputs& inputs) {
  return inputs.resolved.compilation_mode == CompilationMode::STOCK_TORCH_COMPILE &&
         !wants_code(inputs.compilation);
}

// ---- the cache ----

bool uses_cache(const CompileInputs& inputs) {
  // Levels 1 and 2 compile anew each time, as in vLLM.
  return is_split(inputs) && !inputs.args.disable_compile_cache &&
         !is_on("REPRISE_DISABLE_COMPILE_CACHE") && !is_on("VLLM_DISABLE_COMPILE_CACHE");
}

compile::CompileCache open_cache(const CompileInputs& inputs) {
  const EngineArgs& args = inputs.args;
  std::filesystem::path root = args.compile_cache_root;
  if (root.empty()) root = environment("REPRISE_CACHE_ROOT");
  if (root.empty()) {
    root = compile::default_cache_root(environment("HOME"), environment("XDG_CACHE_HOME"));
  }
  return compile::CompileCache({.root = std::move(root),
                                .cache_dir = inputs.compilation.cache_dir,
                                .rank = 0,
                                .is_disabled = !uses_cache(inputs),
                                .created_by = fmt::format("reprise {}", kSourcesHash)});
}

// "[[1,8,0],[9,9223372036854775807,1]]": begin, end, program.
std::string ranges_text(const std::vector<engine::TokenRange>& ranges) {
  Json list = Json::array();
  for (const engine::TokenRange& range : ranges) {
    list.push_back({range.begin, range.end, range.program});
  }
  return list.dump();
}

std::vector<engine::TokenRange> parse_ranges(const std::string& text, size_t num_programs) {
  std::vector<engine::TokenRange> ranges;
  const Json list = parse_json(text, kRangesFile);
  for (const Json& item : list) {
    const bool is_range = item.is_array() && item.size() == 3 && item[0].is_number_integer() &&
                          item[1].is_number_integer() && item[2].is_number_unsigned();
    if (!is_range || item[2].get<size_t>() >= num_programs) {
      throw program::ArtifactError("ranges of other programs");
    }
    ranges.push_back({item[0].get<int64_t>(), item[1].get<int64_t>(), item[2].get<size_t>()});
  }
  if (ranges.empty()) throw program::ArtifactError("no range");
  return ranges;
}

engine::RangedPrograms programs_of(const CompileInputs& inputs, const CompiledFiles& files) {
  const auto find = [&](const std::string& name) {
    const auto file = std::find_if(
        files.begin(), files.end(), [&](const auto& other) { return other.name == name; });
    return file == files.end() ? std::string() : file->bytes;
  };
  engine::RangedPrograms loaded;
  for (size_t i = 0; !find(program_file(i)).empty(); ++i) {
    loaded.programs.push_back(program::from_artifact(
        {.program = find(program_file(i)), .object = find(object_file(i))}, loader_of(inputs)));
  }
  loaded.ranges = parse_ranges(find(kRangesFile), loaded.programs.size());
  return loaded;
}

// Programs to run, and the same as files of a cache entry.
struct Compiled {
  engine::RangedPrograms programs;
  CompiledFiles files;
};

std::optional<Compiled> load_cached(const CompileInputs& inputs,
                                    compile::CompileCache& cache,
                                    const compile::CacheKey& key,
                                    CompilationReport& report,
                                    std::vector<std::string>& warnings) {
  compile::LoadOutcome found = cache.load(key);
  report.cache_outcome = found.is_hit() ? "hit" : found.reason;
  if (found.quarantined || found.miss == compile::MissReason::foreign) {
    warnings.push_back(fmt::format("compile cache: {}; compiling again", found.reason));
  }
  if (!found.is_hit()) return std::nullopt;
  try {
    return Compiled{programs_of(inputs, *found.files), std::move(*found.files)};
  } catch (const Error& error) {
    // Intact bytes of another meaning: this build and the key do not tell them apart.
    report.cache_outcome = error.what();
    warnings.push_back(fmt::format("compile cache: {}; compiling again", error.what()));
    return std::nullopt;
  }
}

void save(compile::CompileCache& cache,
          const compile::CacheKey& key,
          const CompiledFiles& files,
          bool is_wanted,
          CompilationReport& report,
          std::vector<std::string>& warnings) {
  const compile::SaveOutcome outcome = cache.save(key, files);
  report.cache_saved = outcome.saved ? "saved" : outcome.reason;
  if (!outcome.saved && is_wanted) {
    warnings.push_back(
        fmt::format("compile cache: {}; the next start compiles again", outcome.reason));
  }
  report.counter.num_compiled_artifacts_saved += outcome.saved ? 1 : 0;
}

// ---- debug_dump_path ----

// Files below `folder`; a dump that cannot be written is a warning.
compile::DumpSink make_dump_sink(const std::filesystem::path& folder,
                                 std::vector<std::string>& warnings) {
  if (folder.empty()) return {};
  return [folder, &warnings, has_failed = false](std::string_view name,
                                                 std::string_view content) mutable {
    if (has_failed) return;  // said once, not for every file
    const std::filesystem::path path = folder / name;
    std::error_code ignored;
    std::filesystem::create_directories(path.parent_path(), ignored);
    std::ofstream file(path, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (file.flush()) return;
    has_failed = true;
    warnings.push_back(fmt::format("debug_dump_path: {}: cannot write", path.string()));
  };
}

// Of a step with one token.
size_t decode_launches(const engine::RangedPrograms& programs) {
  const auto range = std::find_if(programs.ranges.begin(),
                                  programs.ranges.end(),
                                  [](const auto& r) { return r.begin <= 1 && 1 <= r.end; });
  return compile::num_launches(
      programs
          .programs[(range == programs.ranges.end() ? programs.ranges.back() : *range).program]);
}

program::SplittingOps splitting_ops(const CompileInputs& inputs) {
  return program::parse_splitting_ops(is_split(inputs) ? inputs.resolved.splitting_ops
                                                       : std::vector<std::string>{"attention"});
}

CompilationStages stages_of(const CompileInputs& inputs,
                            const program::Program& traced,
                            const compile::CompileResult& result) {
  CompilationStages stages{.traced = traced,
                           .before = program::split(traced, splitting_ops(inputs)),
                           .after = result.program.split,
                           .reports = result.reports,
                           .object_bytes = result.object.size()};
  for (const auto& groups : result.program.code) {
    std::vector<bool>& of_program = stages.has_code.emplace_back();
    for (const auto& code : groups) of_program.push_back(code != nullptr);
  }
  return stages;
}

// What no table of switches can know: the kernels' and the code generator's answers.
void ask_backends(compile::PassOptions& options, compile::CompilerInterface* compiler) {
  options.has_kernel = [](const program::Program& program, const program::Node& node) {
    if (node.op != OpCode::linear_rope_kv_write) return true;
    constexpr size_t kKeyCache = 5;
    const program::SymShape& cache = program.type(node.inputs[kKeyCache]).shape;
    return kernels::supports_linear_rope_kv_write(cache[3].constant());
  };
  options.can_compile = [compiler](const program::Program& body) {
    return compiler != nullptr && !compiler->why_not(body).has_value();
  };
}

// Switches of vLLM's that change nothing here, if somebody turned them on.
void warn_of_idle_switches(const config::PassConfig& asked, std::vector<std::string>& warnings) {
  const auto warn =
      [&](const std::optional<bool>& flag, std::string_view name, std::string_view why) {
        if (flag.value_or(false))
          warnings.push_back(fmt::format("pass_config.{} has no effect: {}", name, why));
      };
  constexpr std::string_view kNoModel = "no model here has what it fuses";
  warn(asked.enable_qk_norm_rope_fusion,
       "enable_qk_norm_rope_fusion",
       "fuse_qk_norm_rope_kvcache, which is on, does that and more");
  warn(asked.fuse_act_padding, "fuse_act_padding", kNoModel);
  warn(asked.fuse_mla_dual_rms_norm, "fuse_mla_dual_rms_norm", kNoModel);
  warn(asked.fuse_rope_kvcache_cat_mla, "fuse_rope_kvcache_cat_mla", kNoModel);
}

// One compilation, for batches of that many tokens.
compile::CompileResult compile_for(const CompileInputs& inputs,
                                   const compile::CompileRange& range,
                                   const program::TracedProgram& traced,
                                   const engine::ModelRunner& runner,
                                   compile::CompilerInterface* compiler,
                                   CompilationReport& report,
                                   std::vector<std::string>& warnings) {
  compile::PassOptions passes = pass_options(inputs, range, compiler != nullptr);
  ask_backends(passes, compiler);
  const compile::CompileOptions options{
      .splitting_ops = splitting_ops(inputs),
      .wrap_pieces = is_split(inputs),
      .partition_after_passes = partitions_after_passes(inputs),
      .pipeline = stays_as_traced(inputs) ? compile::Pipeline({}) : compile::make_pipeline(passes),
      .compiler = compiler,
      .loader = &loader_of(inputs),
      .plan_memory = !stays_as_traced(inputs),
      .can_alias = can_alias};
  std::filesystem::path folder = inputs.compilation.debug_dump_path;
  if (!folder.empty()) folder /= "rank_0";
  if (!folder.empty() && range != compile::CompileRange{}) {
    folder /= fmt::format("tokens_{}_{}", range.begin, range.end);
  }
  return compile::compile_program(traced.program,
                                  runner.parameter_slots(traced),
                                  options,
                                  report.counter,
                                  report.seconds,
                                  make_dump_sink(folder, warnings));
}

std::optional<Compiled> find_cached(const CompileInputs& inputs,
                                    compile::CompileCache& cache,
                                    const compile::CacheKey& key,
                                    CompilationReport& report,
                                    std::vector<std::string>& warnings) {
  if (!inputs.compilation.debug_dump_path.empty()) {
    report.cache_outcome = "not read: debug_dump_path wants to see a compilation";
    return std::nullopt;
  }
  const compile::StageTimer timer(report.seconds.cache_load);
  std::optional<Compiled> cached = load_cached(inputs, cache, key, report, warnings);
  if (cached) ++report.counter.num_compiled_artifacts_loaded;
  return cached;
}

// Groups are not made, and ops run one by one.
void warn_of_no_code(std::string_view reason,
                     CompilationReport& report,
                     std::vector<std::string>& warnings) {
  report.backend = "eager";
  warnings.push_back(fmt::format("code generation: {}; groups run op by op", reason));
}

std::unique_ptr<compile::CompilerInterface> create_compiler(const CompileInputs& inputs,
                                                            CompilationReport& report,
                                                            std::vector<std::string>& warnings) {
  const CodeGenerator* generator = generator_of(inputs);
  if (generator == nullptr) return nullptr;
  const compile::StageTimer timer(report.seconds.codegen);
  compile::CodegenPlugin plugin = generator->create();
  if (plugin.compiler == nullptr) warn_of_no_code(plugin.reason, report, warnings);
  return std::move(plugin.compiler);
}

program::TracedProgram trace(const engine::ModelRunner& runner, CompilationReport& report) {
  const compile::StageTimer timer(report.seconds.trace);
  return runner.trace();
}

// The runner keeps the model's own code.
void refuse(const Error& error, CompilationReport& report, std::vector<std::string>& warnings) {
  report.backend.clear();
  report.refused = error.what();
  warnings.push_back(fmt::format("{}; running the model's own code (level 0)", error.what()));
}

Compiled compile_all(const CompileInputs& inputs,
                     const program::TracedProgram& traced,
                     const engine::ModelRunner& runner,
                     compile::CompilerInterface* compiler,
                     CompilationReport& report,
                     std::vector<std::string>& warnings) {
  report.traced_launches = compile::num_launches(traced.program);
  Compiled compiled;
  auto& [programs, files] = compiled;
  for (const compile::CompileRange& range : compile_ranges(inputs)) {
    compile::CompileResult result =
        compile_for(inputs, range, traced, runner, compiler, report, warnings);
    program::Artifact artifact = program::to_artifact(result.program, result.object);
    // Most ranges need nothing of their own: what compiles to the same bytes is the same program.
    size_t index = 0;
    while (index < programs.programs.size() && files[2 * index].bytes != artifact.program) ++index;
    programs.ranges.push_back({.begin = range.begin, .end = range.end, .program = index});
    if (inputs.stages != nullptr) *inputs.stages = stages_of(inputs, traced.program, result);
    if (index < programs.programs.size()) continue;
    programs.programs.push_back(std::move(result.program));
    files.push_back({.name = program_file(index), .bytes = std::move(artifact.program)});
    files.push_back({.name = object_file(index), .bytes = std::move(artifact.object)});
    report.planned_bytes_per_token =
        std::max(report.planned_bytes_per_token, result.memory.planned_bytes_per_token);
    report.live_bytes_per_token =
        std::max(report.live_bytes_per_token, result.memory.live_bytes_per_token);
    std::move(
        result.reports.begin(), result.reports.end(), std::back_inserter(report.pass_reports));
  }
  files.push_back({.name = kRangesFile, .bytes = ranges_text(programs.ranges)});
  return compiled;
}

// With generated code; or, if that cannot be made or loaded, once more without. \returns whether it
// is what the cache's key says
std::pair<Compiled, bool> compile_with_or_without_code(const CompileInputs& inputs,
                                                       const program::TracedProgram& traced,
                                                       const engine::ModelRunner& runner,
                                                       CompilationReport& report,
                                                       std::vector<std::string>& warnings) {
  const auto compiler = create_compiler(inputs, report, warnings);
  const CompilationReport before = report;
  std::string failure;
  try {
    const bool is_as_said = (compiler != nullptr) == (generator_of(inputs) != nullptr);
    return {compile_all(inputs, traced, runner, compiler.get(), report, warnings), is_as_said};
  } catch (const compile::CodegenError& error) {
    failure = error.what();
  } catch (const device::CodeLoadError& error) {
    failure = error.what();
  }
  const compile::CompilationSeconds seconds = report.seconds;
  report = before;  // counts what runs
  report.seconds = seconds;
  warn_of_no_code(failure, report, warnings);
  return {compile_all(inputs, traced, runner, nullptr, report, warnings), false};
}

}  // namespace

compile::CacheKey cache_key(const CompileInputs& inputs) {
  const weights::ModelConfig& config = inputs.config;
  std::vector<int64_t> windows;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windows.push_back(config.window_of_layer(layer).value_or(0));
  }
  const CodeGenerator* generator = generator_of(inputs);
  compile::CacheKey key;
  key.add("artifact_version", fmt::to_string(program::kArtifactVersion))
      .add("sources", kSourcesHash)
      .add("architecture", weights::architecture_name(config.architecture))
      .add("hidden_size", fmt::to_string(config.hidden_size))
      .add("intermediate_size", fmt::to_string(config.intermediate_size))
      .add("num_hidden_layers", fmt::to_string(config.num_hidden_layers))
      .add("num_attention_heads", fmt::to_string(config.num_attention_heads))
      .add("num_key_value_heads", fmt::to_string(config.num_key_value_heads))
      .add("head_dim", fmt::to_string(config.head_dim))
      .add("vocab_size", fmt::to_string(config.vocab_size))
      .add("rms_norm_eps", fmt::format("{:a}", static_cast<float>(config.rms_norm_eps)))
      .add("tie_word_embeddings", fmt::to_string(config.tie_word_embeddings))
      .add("biases",
           fmt::format("{}", fmt::join({config.qkv_bias, config.o_bias, config.mlp_bias}, ",")))
      .add("qk_norm", fmt::to_string(config.qk_norm))
      .add("windows", fmt::format("{}", fmt::join(windows, ",")))
      .add("dtype", dtype_name(inputs.dtype))
      .add("max_model_len", fmt::to_string(inputs.max_model_len))
      .add("block_size", fmt::to_string(inputs.args.block_size))
      .add("level", config::to_string(inputs.resolved.compilation_mode))
      .add("splitting_ops", fmt::format("{}", fmt::join(inputs.resolved.splitting_ops, ",")))
      .add("partition_after_passes", fmt::to_string(partitions_after_passes(inputs)))
      .add("passes", passes_text(inputs, generator != nullptr))
      .add("codegen", generator != nullptr ? generator->identity : "none")
      .add("codegen_abi", fmt::format("{}.{}", compile::kCodegenAbi, kernels::kRowGroupAbi))
      .add("isa", kernels::isa_name(inputs.isa));
  return key;
}

CompiledFiles compile_model(const CompileInputs& inputs,
                            engine::ModelRunner& runner,
                            CompilationReport& report,
                            std::vector<std::string>& warnings) {
  ++report.counter.num_models_seen;
  warn_of_idle_switches(inputs.compilation.pass_config, warnings);
  if (inputs.resolved.compilation_mode == CompilationMode::STOCK_TORCH_COMPILE) {
    ++report.counter.stock_torch_compile_count;
  }
  if (!runner.compile_support().is_enabled()) {
    report.refused = "the model asks not to be compiled";
    return {};
  }
  compile::CompileCache cache = open_cache(inputs);
  const compile::CacheKey key = cache_key(inputs);
  const CodeGenerator* generator = generator_of(inputs);
  report.cache_directory = cache.entry_directory(key).string();
  report.backend = generator != nullptr ? generator->name : "eager";
  std::optional<Compiled> compiled = find_cached(inputs, cache, key, report, warnings);
  if (!compiled) {
    try {
      bool is_as_key_says = false;
      const program::TracedProgram traced = trace(runner, report);
      std::tie(compiled, is_as_key_says) =
          compile_with_or_without_code(inputs, traced, runner, report, warnings);
      const compile::StageTimer timer(report.seconds.cache_save);
      if (is_as_key_says) save(cache, key, compiled->files, uses_cache(inputs), report, warnings);
    } catch (const program::TraceError& error) {
      refuse(error, report, warnings);
      return {};
    } catch (const compile::CompileError& error) {
      refuse(error, report, warnings);
      return {};
    }
  }
  report.compiled_launches = decode_launches(compiled->programs);
  runner.use_programs(std::move(compiled->programs));
  return std::move(compiled->files);
}

void use_compiled(const CompileInputs& inputs,
                  const CompiledFiles& files,
                  engine::ModelRunner& runner) {
  if (!files.empty()) runner.use_programs(programs_of(inputs, files));
}

}  // namespace reprise::api
