#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/flashinfer_table.h"
#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/cuda/packed_launch.h"
#include "reprise/kernels/cuda/product_choices.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/device_ranks.h"
#include "reprise/kernels/tunable_products.h"

namespace reprise::kernels::cuda {

struct CudaExecutorOptions {
  int num_multiprocessors = 132;  // of the GPU; decides the number of blocks of a launch
  /// Rows of partial results of attention. With more of them, a batch of many long contexts keeps
  /// its parts (see attention_share.cuh). A row takes 520 bytes. 0: as many as prompts need.
  int64_t partial_rows = 0;
  /// If it is required, a row has the same bits in any launch: the project's own kernels multiply
  /// any number of rows, and attention is divided at positions that depend on no batch.
  BatchInvariance invariance = BatchInvariance::not_required;
  /// For matrix products of many rows. nullptr: the project's own kernels serve them. Borrowed for
  /// the constructor's call.
  const CublasLtApi* cublas_lt = nullptr;
  /// The project's own kernels serve what these do not, and all attention if there are none. The
  /// kernels must outlive the executor.
  FlashInferKernels flashinfer;
  /// The groups of ranks that collective ops name. They must outlive the executor.
  std::vector<DeviceRanks*> ranks = {};
};

/// Runs ops on a GPU. Ops on rows use the launch functions of the CPU, with kernels that take the
/// same arguments and grids. Matrix products and attention have launch functions of their own, and
/// generated code has a grid of its own. It takes all packed weights. Products of eight-bit rows
/// with a weight in rows (scaled_linear), which no model has, are refused.
///
/// The constructor loads all kernels and allocates the workspaces, so that neither happens in a
/// capture.
///
/// Matrix products follow `choices()`. Without a table of choices, rules of this
/// build decide, which were measured on an H200.
class CudaExecutor final : public DeviceExecutor {
 public:
  /// \throws DeviceError, OutOfMemory
  CudaExecutor(device::Stream& stream,
               device::MemoryPool& pool,
               const CudaExecutorOptions& options);

  [[nodiscard]] int64_t norm_prologue_max_token_num() const noexcept override {
    return kMostNormedRows;
  }
  [[nodiscard]] WeightFamilies weight_families() const noexcept override {
    using enum WeightFamily;
    return {{block_panels, int8_panels, float_panels}, {block_panels, float_panels}};
  }
  [[nodiscard]] std::vector<ScratchMemory> scratch() const override;
  [[nodiscard]] int state_chunk_tokens(DType dtype) const noexcept override;
  [[nodiscard]] std::string remark_on(PanelFormat codec, DType dtype) override;
  [[nodiscard]] DeviceRankGroups device_ranks() const noexcept { return options_.ranks; }
  [[nodiscard]] TunableProducts* tunable_products() noexcept override;

  [[nodiscard]] ProductChoices& choices() noexcept { return choices_; }
  /// nullptr: the project's own kernels compute all products.
  [[nodiscard]] GemmLibrary* library() noexcept { return gemm_.get(); }
  [[nodiscard]] const CudaExecutorOptions& options() const noexcept { return options_; }
  /// Whether this GPU runs streamed_kernels().
  [[nodiscard]] bool has_streamed_kernels() const noexcept { return has_streamed_kernels_; }

 private:
  /// What a product needs besides its operands.
  struct ProductCall {
    NormCall norm;                // without a weight, x is used as it is
    const ProductChoice* choice;  // nullptr: the rule
  };
  using LaunchProduct = bool (CudaExecutor::*)(const ProductCall& call, const OpRun& run);
  template <LaunchProduct kLaunch>
  static bool launch_product(const OpRun& run);
  /// A product with a packed weight.
  static bool launch_packed(const OpRun& run);
  static bool launch_experts(const OpRun& run);
  [[nodiscard]] PackedMachine packed_machine(const ProductChoice* choice) const;
  static const LaunchTable& launches();

  bool linear(const ProductCall& call, const OpRun& run);
  bool linear_add(const ProductCall& call, const OpRun& run);
  bool linear_silu_and_mul(const ProductCall& call, const OpRun& run);
  bool lm_head(const ProductCall& call, const OpRun& run);
  bool linear_rope_kv_write(const ProductCall& call, const OpRun& run);

  /// linear(), or lm_head() of every row, by the library. Whether the library launched it.
  bool multiply(const ProductChoice* choice,
                const Tensor& x,
                const Tensor& weight,
                const Tensor& bias,
                const Tensor& out);
  /// The library's product, which the launch of an epilogue then reads. Undefined: the library does
  /// not compute it, or the project's own kernel takes less time than both launches.
  [[nodiscard]] Tensor product_of(const ProductCall& call, std::span<const Tensor> in);
  /// A product by the project's own kernels. Operands 0 to 2 are x, weight and bias.
  bool launch_own(const LinearKernels& kernels,
                  const ProductCall& call,
                  std::span<const Tensor> in,
                  const Tensor& residual,
                  const Tensor& out);

  bool launch_attention(const OpRun& run);
  bool launch_divided_attention(const AttentionCall& call);
  /// Prompts, and the decoding requests among them in a launch of their own.
  bool launch_prefill_attention(const AttentionCall& call,
                                const device::Kernel& prefill,
                                const device::Kernel& decode,
                                CudaAttentionArguments arguments);
  /// Requests of few tokens, by FlashInfer's kernel where there is one. `own`: otherwise.
  bool launch_few_rows(const AttentionCall& call,
                       const device::Kernel& own,
                       CudaAttentionArguments arguments);
  /// Attention of any batch, with bits that do not depend on it.
  bool launch_fixed_attention(const AttentionCall& call,
                              const AttentionPathKernels& paths,
                              const CudaAttentionArguments& arguments);
  /// The blocks of a launch of the kernels for decoding.
  [[nodiscard]] uint32_t decode_blocks(const AttentionKernelArguments& a, int64_t tiles) const;
  bool launch_planned_attention(const AttentionCall& call);

  CudaExecutorOptions options_;
  bool has_streamed_kernels_ = false;
  uint32_t block_shared_bytes_ = 0;  // the most of a block on this GPU
  int64_t partial_rows_ = 0;
  device::Buffer partials_;            // results of parts of the positions
  device::Buffer arrived_;             // how many parts of a tile are done
  std::unique_ptr<GemmLibrary> gemm_;  // nullptr: the machine has no library
  ProductChoices choices_;
  std::unique_ptr<TunableProducts> tuner_;
};

}  // namespace reprise::kernels::cuda
