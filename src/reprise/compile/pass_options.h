#pragma once

#include <cstdint>
#include <optional>

#include "reprise/compile/passes/pass.h"

namespace reprise::compile {

/// Everything that decides the list of passes: switches, the batch sizes, and the available
/// kernels. Options with names of vLLM's pass_config have vLLM's meaning; docs/reference/passes.md
/// says which pass each option switches.
struct PassOptions {
  /// The batch sizes for which the program is compiled. A pass that is not valid for all of them is
  /// left out.
  program::TokenRange range;

  // Options of vLLM.
  bool eliminate_noops = true;
  bool fuse_norm_quant = true;
  bool fuse_act_quant = true;
  bool fuse_attn_quant = true;
  bool fuse_allreduce_rms = false;
  bool enable_sp = false;        // needs tensor_parallel_size > 1 and sp_min_token_num
  bool fuse_gemm_comms = false;  // needs enable_sp
  bool fuse_rope_kvcache = true;
  bool fuse_qk_norm_rope_kvcache = true;
  int64_t rope_kvcache_fusion_max_token_num = 256;  // 0 = no limit, as on the CPU
  std::optional<int64_t> sp_min_token_num;          // unset: no sequence parallelism

  // Options of this project.
  bool fuse_add_rms_norm = true;
  bool fuse_gemm_epilogues = false;  // the CPU has kernels for them
  /// true: the sum of a residual and a matrix product is fused into the product. false: it is fused
  /// into the norm after it.
  bool prefer_linear_add = false;
  /// In batches of up to this many tokens, a matrix product includes the norm before it. 0: there
  /// are no kernels for that. Needs fuse_gemm_epilogues and prefer_linear_add: otherwise the norm
  /// is fused with the sum before it and no separate norm is left.
  int64_t norm_prologue_max_token_num = 0;
  bool group_rows = false;        // needs code generation
  bool group_single_ops = false;  // also make groups that have only one op

  int64_t tensor_parallel_size = 1;
  // The rank for which the program is compiled, among these ranks; unset: the program serves all of
  // them.
  std::optional<int64_t> tensor_rank;
  std::optional<int64_t> allreduce_fusion_max_token_num;  // unset: no fused all-reduce

  /// Whether the kernels can launch a fused op. A pass asks before it creates the op.
  NodePredicate has_kernel;
  /// Whether code can be generated for the body of a group. The pass asks before it creates the
  /// group.
  BodyPredicate can_compile;
};

}  // namespace reprise::compile
