#include "reprise/compile/pipeline.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "reprise/compile/passes/eliminate_common_subexpressions.h"
#include "reprise/compile/passes/eliminate_dead_code.h"
#include "reprise/compile/passes/eliminate_noops.h"
#include "reprise/compile/passes/fuse_act_quant.h"
#include "reprise/compile/passes/fuse_add_rms_norm.h"
#include "reprise/compile/passes/fuse_allreduce_rms.h"
#include "reprise/compile/passes/fuse_attn_quant.h"
#include "reprise/compile/passes/fuse_gemm_comms.h"
#include "reprise/compile/passes/fuse_linear.h"
#include "reprise/compile/passes/fuse_norm_quant.h"
#include "reprise/compile/passes/fuse_rope_kv_write.h"
#include "reprise/compile/passes/group_rows.h"
#include "reprise/compile/passes/parallelize_sequence.h"
#include "reprise/compile/passes/sink_norm_below_gather.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"

namespace reprise::compile {

using program::Program;

CompileError::CompileError(std::string_view pass, std::string violation)
    : Error(fmt::format("pass {} broke the program: {}", pass, violation)),
      pass_(pass),
      violation_(std::move(violation)) {}

size_t PipelineReport::num_matches(std::string_view pass) const {
  size_t sum = 0;
  for (const PassRun& run : passes) sum += run.pass == pass ? run.num_matches : 0;
  return sum;
}

std::string PipelineReport::to_string() const {
  std::string text = fmt::format("{:<32} {:>7} {:>7} {:>10}\n", "pass", "matches", "ops", "us");
  fmt::format_to(std::back_inserter(text), "{:<32} {:>7} {:>7} {:>10}\n", "", "", num_nodes, "");
  for (const PassRun& run : passes) {
    fmt::format_to(std::back_inserter(text),
                   "{:<32} {:>7} {:>7} {:>10.1f}\n",
                   run.pass,
                   run.num_matches,
                   run.num_nodes,
                   run.microseconds);
  }
  return text;
}

PipelineReport Pipeline::run(Program& program, const DumpCallback& dump) const {
  program::check(program);
  Program rewritten = program;
  PipelineReport report{.num_nodes = program.nodes.size()};
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    std::string before = dump ? program::print(rewritten) : std::string();
    const auto begin = std::chrono::steady_clock::now();
    const size_t num_matches = pass.apply(rewritten);
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - begin;
    // Dump before verification, because a program that a pass broke is the most interesting one.
    if (dump) dump({i, pass.name, std::move(before), program::print(rewritten)});
    if (auto violation = program::verify(rewritten)) {
      throw CompileError(pass.name, std::move(*violation));
    }
    report.passes.push_back(
        {std::string(pass.name), num_matches, rewritten.nodes.size(), elapsed.count()});
  }
  program = std::move(rewritten);
  return report;
}

namespace {

using Apply = size_t (*)(Program&, const NodePredicate&);

// The range of batches with at most `num_tokens` tokens; 0: all batches.
program::TokenRange up_to(int64_t num_tokens) {
  return num_tokens == 0 ? program::TokenRange{} : program::TokenRange{.end = num_tokens};
}

struct Entry {
  bool is_enabled = false;
  Pass pass;
};

// All passes in their order, each with a flag: whether the options switch it on.
std::vector<Entry> pipeline_entries(const PassOptions& on) {
  const auto with_kernels = [&](Apply apply) {
    return [apply, has_kernel = on.has_kernel](Program& program) {
      return apply(program, has_kernel);
    };
  };
  const program::TokenRange rope_range = up_to(on.rope_kvcache_fusion_max_token_num);
  const program::TokenRange norm_range = up_to(on.norm_prologue_max_token_num);
  const bool has_ranks = on.tensor_parallel_size > 1;
  const bool has_sp = has_ranks && on.enable_sp && on.sp_min_token_num;
  const program::TokenRange sp_range{.begin = on.sp_min_token_num.value_or(1)};
  const bool has_norm_prologue = on.fuse_gemm_epilogues && on.norm_prologue_max_token_num > 0 &&
                                 on.range.end <= on.norm_prologue_max_token_num;
  const bool early_linear_add = on.fuse_gemm_epilogues && on.prefer_linear_add;
  const bool late_linear_add = on.fuse_gemm_epilogues && !on.prefer_linear_add;
  return {
      {on.eliminate_noops, {"eliminate_noops", eliminate_noops}},
      {true, {"eliminate_common_subexpressions", eliminate_common_subexpressions}},
      // Removes unused norms before the fusions, so that no fusion includes a norm whose result is
      // never read.
      {true, {"eliminate_dead_code", eliminate_dead_code}},
      // Before fuse_add_rms_norm: the sum joins the product, and the norm joins the quantisation.
      {on.fuse_gemm_epilogues, {"fuse_block_linear", with_kernels(fuse_block_linear)}},
      {early_linear_add, {"fuse_linear_add", with_kernels(fuse_linear_add)}},
      {on.fuse_add_rms_norm, {"fuse_add_rms_norm", fuse_add_rms_norm}},
      {has_sp,
       {"parallelize_sequence",
        [rank = on.tensor_rank](Program& program) { return parallelize_sequence(program, rank); },
        sp_range}},
      {has_sp && on.fuse_gemm_comms, {"fuse_gemm_comms", with_kernels(fuse_gemm_comms), sp_range}},
      {has_ranks && on.fuse_allreduce_rms && on.allreduce_fusion_max_token_num,
       {"fuse_allreduce_rms",
        with_kernels(fuse_allreduce_rms),
        {.end = on.allreduce_fusion_max_token_num.value_or(0)}}},
      {on.fuse_norm_quant, {"fuse_norm_quant", with_kernels(fuse_norm_quant)}},
      {on.fuse_act_quant, {"fuse_act_quant", with_kernels(fuse_act_quant)}},
      {on.fuse_qk_norm_rope_kvcache,
       {"fuse_qk_norm_rope_kv_write", with_kernels(fuse_qk_norm_rope_kv_write), rope_range}},
      {on.fuse_rope_kvcache, {"fuse_rope_kv_write", with_kernels(fuse_rope_kv_write), rope_range}},
      {on.fuse_attn_quant, {"fuse_attn_quant", with_kernels(fuse_attn_quant)}},
      {on.fuse_gemm_epilogues,
       {"fuse_linear_rope_kv_write", with_kernels(fuse_linear_rope_kv_write)}},
      {on.fuse_gemm_epilogues,
       {"fuse_linear_silu_and_mul", with_kernels(fuse_linear_silu_and_mul)}},
      {late_linear_add, {"fuse_linear_add", with_kernels(fuse_linear_add)}},
      // Without fuse_rms_norm_linear or group_rows, this pass would split one launch into two, so
      // it runs only together with one of them.
      {on.group_rows || has_norm_prologue, {"sink_norm_below_gather", sink_norm_below_gather}},
      // The previous pass may gather the same rows for two norms. This pass merges the two gathers.
      {has_norm_prologue, {"eliminate_common_subexpressions", eliminate_common_subexpressions}},
      {has_norm_prologue, {"fuse_quantize_linear", with_kernels(fuse_quantize_linear), norm_range}},
      {has_norm_prologue, {"fuse_rms_norm_linear", with_kernels(fuse_rms_norm_linear), norm_range}},
      {on.group_rows,
       {"group_rows",
        [group_options = GroupRowsOptions{.can_compile = on.can_compile,
                                          .group_single_ops = on.group_single_ops}](
            Program& program) { return group_rows(program, group_options); }}},
  };
}

}  // namespace

Pipeline make_pipeline(const PassOptions& options) {
  std::vector<Pass> passes;
  std::vector<Entry> entries = pipeline_entries(options);
  for (Entry& entry : entries) {
    if (entry.is_enabled && entry.pass.is_applicable(options.range)) {
      passes.push_back(std::move(entry.pass));
    }
  }
  return Pipeline(std::move(passes));
}

}  // namespace reprise::compile
