#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"
#include "reprise/tensor/op_function.h"

namespace reprise::kernels {

struct alignas(16) SelectExpertsArguments {
  const void* logits;  // rows of num_experts elements, in layout; at most kMaxExperts
  const float* bias;   // [num_experts], nullptr: none
  float* weights;      // [rows, top_k], dense
  int32_t* experts;    // like weights
  RowLayout layout;
  RowTiles tiles;  // of logits
  int64_t top_k;
  int64_t groups;  // of neighbouring experts, all of one size; 0: chosen by logits
  int64_t top_groups;
  float scale;  // of the weights
  OpFunction function;
};

/// The limit of the kernel, which keeps a row on the stack. Published models have up to 512.
inline constexpr int kMaxExperts = 1024;

/// Whether experts are chosen by their logits, not by their scores in groups.
static constexpr bool chooses_by_logits(OpFunction function) {
  return function == OpFunction::softmax_of_all || function == OpFunction::softmax_of_chosen ||
         function == OpFunction::ones;
}
static constexpr bool has_sigmoids(OpFunction function) {
  return function == OpFunction::sigmoid || function == OpFunction::normalized_sigmoid;
}
static constexpr bool divides_by_sum(OpFunction function) {
  return function == OpFunction::normalized_softmax || function == OpFunction::normalized_sigmoid;
}

}  // namespace reprise::kernels
