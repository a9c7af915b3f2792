#pragma once

#include <cstdint>
#include <optional>

#include "reprise/compile/passes/pass.h"

namespace reprise::compile {

/// Which passes run, for which batches and which kernels: all that a pipeline depends on. The names
/// of vLLM's pass_config mean what they mean there; docs/reference/passes.md says which pass each
/// one switches.
struct PassOptions {
  /// The tokens that the program is compiled for. Passes that are not for all of them are left out.
  program::TokenRange range;

  // vLLM's.
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

  // Ours.
  bool fuse_add_rms_norm = true;
  bool fuse_gemm_epilogues = false;  // the CPU has kernels for them
  /// A sum of a residual and a product goes to the product, not to the norm that follows.
  bool prefer_linear_add = false;
  /// Up to so many tokens products take the norm before them; 0: there are no kernels for that. Of
  /// use with fuse_gemm_epilogues and prefer_linear_add, which leave the norm by itself.
  int64_t norm_prologue_max_token_num = 0;
  bool group_rows = false;        // needs code generation
  bool group_single_ops = false;  // also where there is nothing to group an op with

  int64_t tensor_parallel_size = 1;
  std::optional<int64_t> allreduce_fusion_max_token_num;  // unset: no fused all-reduce

  /// Asked of each fused op before it is made: the kernels' answer.
  NodePredicate has_kernel;
  /// Asked of each group's body before it is made: the code generator's answer.
  BodyPredicate can_compile;
};

}  // namespace reprise::compile
