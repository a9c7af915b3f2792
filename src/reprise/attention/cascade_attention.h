#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/device/device.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// The numbers of a model and its device on which the rule of cascade attention depends.
struct CascadeShape {
  int64_t num_kv_heads = 0;
  int64_t group_size = 0;  // query heads per key/value head
  int num_workers = 1;     // that share the attention of a step
};

/// Fewer requests, or a shorter prefix, never use cascade attention. Source: vLLM's
/// use_cascade_attention.
inline constexpr int32_t kFewestCascadeReqs = 8;
inline constexpr int32_t kShortestCascadePrefix = 256;  // tokens
/// Steps with more tokens never use cascade attention: they are prompts, whose tokens share their
/// loads anyway.
inline constexpr int32_t kMostCascadeTokens = 512;

/// The number of positions of a shared prefix for which attention can be computed once: a multiple
/// of 32.
[[nodiscard]] int32_t cascade_prefix_len(const cudagraph::BatchFacts& batch) noexcept;

/// The number of tokens that should share the loads of the prefix, or 0 if attention without
/// cascade is about as fast.
[[nodiscard]] int32_t choose_cascade(const CascadeShape& shape,
                                     const cudagraph::BatchFacts& batch) noexcept;

/// Cascade attention: the part of attention over a prefix that all requests of a step share is
/// computed once, with the queries of many requests together. The bits are those without it
/// (docs/adr/0051), so it may begin and end between any two steps.
///
/// Belongs to one model runner and one thread. Owns the memory between the two parts.
class CascadeAttention {
 public:
  /// nullptr if the model cannot use cascade attention: some layer has a window, sees later tokens
  /// or keeps states, or the steps are too small. `max_num_tokens`, `max_num_reqs`: of a step.
  [[nodiscard]] static std::unique_ptr<CascadeAttention> create(
      std::span<AttentionLayer* const> layers,
      int32_t max_num_tokens,
      int32_t max_num_reqs,
      int num_workers,
      device::Device& device,
      OpExecutor& executor);

  CascadeAttention(const CascadeShape& shape,
                   int32_t max_num_tokens,
                   int64_t values_per_token,  // of the states: float32
                   device::Device& device,
                   OpExecutor& executor);

  /// Whether the batch should use it.
  [[nodiscard]] bool is_faster(const cudagraph::BatchFacts& batch) const noexcept {
    return choose_cascade(shape_, batch) > 0;
  }
  /// Lets a path for any batch or for uniform batches use cascade attention. A path with a plan
  /// stays as it is. `num_staged_tokens`: with padding. The path also stays as it is if the memory
  /// has room for fewer tokens.
  void add_to(AttentionPath& path,
              const cudagraph::BatchFacts& batch,
              int32_t num_staged_tokens) const;

 private:
  CascadeShape shape_;
  int32_t max_num_tokens_;
  device::Buffer buffer_;
  Tensor states_;
};

}  // namespace reprise::attention
