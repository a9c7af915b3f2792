#pragma once

#include <vector>

#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/tensor.h"

namespace reprise::models {

/// The op and the memory with which layers with experts count the tokens that each expert gets.
/// Nothing is counted on the host: the counts are memory that an op of the model changes.
struct ExpertCounting {
  /// (experts i32[T, K], state num_tokens i32[1], state counts i32[E]): adds one to counts[e] for
  /// each entry e of the first num_tokens rows; the other rows are padding. Counts may wrap.
  const CustomOp* op = nullptr;
  Tensor num_tokens;
  std::vector<Tensor> layers;  // by layer; undefined for layers without experts
};

}  // namespace reprise::models
