#include "reprise/kernels/logit_passes/logit_passes.h"

#include <array>

#include "reprise/base/assert.h"
#include "reprise/kernels/vector/exp_arguments.h"

namespace reprise::kernels {

bool LogitPasses::has_kernels(const KernelTable& kernels) {
  return kernels.logit_maxima.cpu != nullptr;
}

bool LogitPasses::find_maxima(std::span<const float> logits, std::span<float> maxima) const {
  int32_t is_allowed = 0;
  const LogitMaximaArguments arguments = {.logits = logits.data(),
                                          .size = std::ssize(logits),
                                          .maxima = maxima.data(),
                                          .is_allowed = &is_allowed};
  kernels_->logit_maxima.cpu(&arguments, {0, 1});
  return is_allowed != 0;
}

void LogitPasses::sum_parts(const LogitWeightsArguments& arguments) const {
  kernels_->logit_weights.cpu(&arguments, {0, 1});
}

void LogitPasses::sum_above(const LogitMassArguments& arguments) const {
  kernels_->logit_mass.cpu(&arguments, {0, 1});
}

void LogitPasses::weigh(std::span<const float> logits,
                        float max,
                        float inverse_temperature,
                        std::span<float> weights) const {
  REPRISE_ASSERT(
      logits.size() <= size_t{kLogitPart}, "{} logits, at most {}", logits.size(), kLogitPart);
  // The same operations as in the kernel that adds weights, so both have the same bits.
  std::array<float, kLogitPart> exponents;
  for (size_t i = 0; i < logits.size(); ++i) exponents[i] = (logits[i] - max) * inverse_temperature;
  const ExpArguments arguments = {
      .x = exponents.data(), .out = weights.data(), .size = std::ssize(logits)};
  kernels_->exp.cpu(&arguments, {0, 1});
}

}  // namespace reprise::kernels
