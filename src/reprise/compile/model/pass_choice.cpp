#include "reprise/compile/model/pass_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace reprise::compile {
namespace {

// Every field but the two predicates, which ask the kernels and the code generator of this build.
// The list of names below does not compile unless it names every field, so a new field cannot be
// missing in the key.
std::string to_text(const PassOptions& options) {
  const auto& [range,
               eliminate_noops,
               fuse_norm_quant,
               fuse_act_quant,
               fuse_attn_quant,
               fuse_allreduce_rms,
               enable_sp,
               fuse_gemm_comms,
               fuse_rope_kvcache,
               fuse_qk_norm_rope_kvcache,
               rope_kvcache_fusion_max_token_num,
               sp_min_token_num,
               fuse_add_rms_norm,
               fuse_gemm_epilogues,
               prefer_linear_add,
               norm_prologue_max_token_num,
               group_rows,
               group_single_ops,
               tensor_parallel_size,
               tensor_rank,
               allreduce_fusion_max_token_num,
               has_kernel,
               can_compile] = options;
  return fmt::format("{}",
                     fmt::join({range.begin,
                                range.end,
                                range.multiple,
                                int64_t{eliminate_noops},
                                int64_t{fuse_norm_quant},
                                int64_t{fuse_act_quant},
                                int64_t{fuse_attn_quant},
                                int64_t{fuse_allreduce_rms},
                                int64_t{enable_sp},
                                int64_t{fuse_gemm_comms},
                                int64_t{fuse_rope_kvcache},
                                int64_t{fuse_qk_norm_rope_kvcache},
                                rope_kvcache_fusion_max_token_num,
                                sp_min_token_num.value_or(-1),
                                int64_t{fuse_add_rms_norm},
                                int64_t{fuse_gemm_epilogues},
                                int64_t{prefer_linear_add},
                                norm_prologue_max_token_num,
                                int64_t{group_rows},
                                int64_t{group_single_ops},
                                tensor_parallel_size,
                                tensor_rank.value_or(-1),
                                allreduce_fusion_max_token_num.value_or(-1)},
                               ","));
}

// Returns among how many ranks the tokens of a batch are divided; 1 without sequence parallelism.
int64_t ranks_of_sequences(const ModelCompilerOptions& options) {
  return options.resolved.pass_config.enable_sp.value_or(false) ? options.tensor_parallel_size : 1;
}

}  // namespace

std::vector<program::TokenRange> compile_ranges(const ModelCompilerOptions& options) {
  if (!compiles_pieces(options)) return {program::TokenRange{}};
  std::vector<program::TokenRange> ranges;
  const int64_t ranks = ranks_of_sequences(options);
  const int64_t first = options.resolved.pass_config.sp_min_token_num.value_or(1);
  // The ranks divide the tokens of a batch if their number is a multiple of the number of ranks.
  // Other batches run the whole program.
  const auto add = [&](const program::TokenRange& range) {
    if (ranks > 1 && range.begin >= first) {
      ranges.push_back({.begin = range.begin, .end = range.end, .multiple = ranks});
    }
    ranges.push_back(range);
  };
  for (int32_t size : options.resolved.compile_sizes) add({.begin = size, .end = size});
  std::vector<int32_t> ends =
      options.asked.compile_ranges_endpoints.value_or(std::vector<int32_t>{});
  // Batches of few rows get their own program, whose matrix products use kernels for few rows.
  ends.push_back(static_cast<int32_t>(options.norm_prologue_max_token_num));
  if (ranks > 1) ends.push_back(static_cast<int32_t>(first - 1));
  std::sort(ends.begin(), ends.end());
  int64_t begin = 1;
  for (int32_t end : ends) {
    if (end < begin) continue;  // two endpoints are equal
    add({.begin = begin, .end = end});
    begin = int64_t{end} + 1;
  }
  add({.begin = begin});
  return ranges;
}

PassOptions choose_passes(const ModelCompilerOptions& options,
                          const program::TokenRange& range,
                          bool generates_code) {
  const config::PassConfig& config = options.resolved.pass_config;
  const bool has_patterns = compiles_pieces(options);
  const auto on = [&](const std::optional<bool>& flag) {
    return has_patterns && flag.value_or(false);
  };
  PassOptions passes;
  passes.range = range;
  passes.eliminate_noops = config.eliminate_noops;
  passes.fuse_norm_quant = on(config.fuse_norm_quant);
  passes.fuse_act_quant = on(config.fuse_act_quant);
  passes.fuse_attn_quant = on(config.fuse_attn_quant);
  passes.fuse_allreduce_rms = on(config.fuse_allreduce_rms);
  passes.tensor_parallel_size = options.tensor_parallel_size;
  passes.tensor_rank = options.tensor_rank;
  // In this engine the fusion works at any size.
  passes.allreduce_fusion_max_token_num = program::TokenRange{}.end;
  passes.enable_sp = on(config.enable_sp) && range.multiple > 1;
  passes.fuse_gemm_comms = on(config.fuse_gemm_comms);
  passes.fuse_rope_kvcache = on(config.fuse_rope_kvcache);
  passes.fuse_qk_norm_rope_kvcache = on(config.fuse_qk_norm_rope_kvcache);
  // 0 = no limit: in this engine the fusion saves time at any size.
  passes.rope_kvcache_fusion_max_token_num = 0;
  passes.sp_min_token_num = config.sp_min_token_num;
  passes.fuse_add_rms_norm = has_patterns;
  passes.fuse_gemm_epilogues = has_patterns;
  passes.norm_prologue_max_token_num = has_patterns ? options.norm_prologue_max_token_num : 0;
  // For few rows, a norm is computed by the matrix product after it. The sum of the residual and
  // the previous product then cannot be fused into the norm, so it is fused into that previous
  // product.
  passes.prefer_linear_add =
      passes.norm_prologue_max_token_num > 0 && range.end <= passes.norm_prologue_max_token_num;
  passes.group_rows = generates_code;
  return passes;
}

std::string passes_text(const ModelCompilerOptions& options) {
  std::string text;
  for (const program::TokenRange& range : compile_ranges(options)) {
    text += to_text(choose_passes(options, range, code_generator(options) != nullptr)) + ";";
  }
  return text;
}

bool partitions_after_passes(const ModelCompilerOptions& options) {
  // Levels 1 and 2 compile the whole program. It is split only to find where captures are
  // interrupted.
  return !compiles_pieces(options) || options.asked.use_inductor_graph_partition.value_or(false);
}

program::SplittingOps splitting_ops(const ModelCompilerOptions& options) {
  return find_splitting_ops(
      options,
      compiles_pieces(options)
          ? options.resolved.splitting_ops
          : std::vector<std::string>{"attention", "mla_attention", "selective_state_update"});
}

program::SplittingOps find_splitting_ops(const ModelCompilerOptions& options,
                                         std::span<const std::string> names) {
  const std::vector<const CustomOp*> of_user =
      options.extensions ? options.extensions->ops() : std::vector<const CustomOp*>{};
  return program::parse_splitting_ops(names, of_user);
}

bool stays_as_traced(const ModelCompilerOptions& options) {
  return is_level_1(options) && runs_eagerly(options);
}

std::vector<std::string> switches_without_effect(const config::PassConfig& asked) {
  std::vector<std::string> warnings;
  const auto warn =
      [&](const std::optional<bool>& flag, std::string_view name, std::string_view why) {
        if (!flag.value_or(false)) return;
        warnings.push_back(fmt::format("pass_config.{} has no effect: {}", name, why));
      };
  constexpr std::string_view kNoModel = "no model here has the ops that it fuses";
  warn(asked.enable_qk_norm_rope_fusion,
       "enable_qk_norm_rope_fusion",
       "fuse_qk_norm_rope_kvcache, which is on, does that and more");
  warn(asked.fuse_act_padding, "fuse_act_padding", kNoModel);
  warn(asked.fuse_mla_dual_rms_norm, "fuse_mla_dual_rms_norm", kNoModel);
  warn(asked.fuse_rope_kvcache_cat_mla, "fuse_rope_kvcache_cat_mla", kNoModel);
  return warnings;
}

}  // namespace reprise::compile
