#pragma once

#include <functional>

#include "reprise/kernels/causal_conv1d/causal_conv1d.h"
#include "reprise/kernels/gated_delta_rule/gated_delta_rule.h"
#include "reprise/kernels/selective_state_update/selective_state_update.h"
#include "reprise/kernels/short_conv/short_conv.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of ops with a state for each request, in double.
namespace reprise::kernels {

/// A recurrence: `update` computes the results of a token and changes the state in a
/// slot.
using UpdateStateRef = std::function<void(int64_t slot, int64_t token)>;
void recurrence_ref(const UpdateStateRef& update, const StateOperands& states, const Tensor& out);

/// A convolution: its input, and the function of each sum.
struct ConvolutionRef {
  std::function<double(int64_t token, int64_t channel)> input;
  std::function<double(int64_t token, int64_t channel, double sum)> result;
};
void convolution_ref(const ConvolutionRef& op,
                     const Tensor& weight,
                     const Tensor& bias,
                     const StateOperands& states,
                     const Tensor& out);

void causal_conv1d_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const StateOperands& states,
                       const Tensor& out);

void short_conv_ref(const Tensor& x,
                    const Tensor& weight,
                    const Tensor& bias,
                    const StateOperands& states,
                    const Tensor& out);

void selective_state_update_ref(const SelectiveStateInputs& in,
                                const StateOperands& states,
                                const Tensor& out);

void gated_delta_rule_ref(const DeltaRuleInputs& in,
                          const StateOperands& states,
                          const Tensor& out);

}  // namespace reprise::kernels
