#include "reprise/runner/sampling_team.h"

#include <span>

#include "reprise/device/cpu/usable_cores.h"
#include "reprise/kernels/logit_passes/logit_passes.h"

namespace reprise::runner {
namespace {

static_assert(sampling::kPartSize == size_t{kernels::kLogitPart});
static_assert(sampling::kNumLevels == size_t{kernels::kLogitLevels});

class KernelRowPasses final : public sampling::RowPasses {
 public:
  explicit KernelRowPasses(const kernels::KernelTable& kernels) : passes_(kernels) {}

  [[nodiscard]] bool find_maxima(std::span<const float> logits,
                                 std::span<float> maxima) const override {
    return passes_.find_maxima(logits, maxima);
  }
  void sum_parts(const sampling::LogitRow& row,
                 const sampling::WeightScale& scale,
                 float least,
                 std::span<float> sums) const override {
    passes_.sum_parts({.logits = row.logits.data(),
                       .size = std::ssize(row.logits),
                       .maxima = row.maxima.data(),
                       .sums = sums.data(),
                       .max = scale.max,
                       .inverse_temperature = scale.inverse_temperature,
                       .least = least});
  }
  [[nodiscard]] sampling::Masses sum_above(const sampling::LogitRow& row,
                                           const sampling::WeightScale& scale,
                                           const sampling::Levels& levels) const override {
    sampling::Masses masses;
    kernels::LogitMassArguments arguments = {.logits = row.logits.data(),
                                             .size = std::ssize(row.logits),
                                             .maxima = row.maxima.data(),
                                             .masses = masses.data(),
                                             .levels = {},
                                             .max = scale.max,
                                             .inverse_temperature = scale.inverse_temperature};
    std::copy(levels.begin(), levels.end(), arguments.levels);
    passes_.sum_above(arguments);
    return masses;
  }
  void weigh(std::span<const float> logits,
             const sampling::WeightScale& scale,
             std::span<float> weights) const override {
    passes_.weigh(logits, scale.max, scale.inverse_temperature, weights);
  }

 private:
  kernels::LogitPasses passes_;
};

}  // namespace

std::unique_ptr<sampling::RowPasses> make_row_passes(const kernels::KernelTable& kernels) {
  if (!kernels::LogitPasses::has_kernels(kernels)) return sampling::make_plain_row_passes();
  return std::make_unique<KernelRowPasses>(kernels);
}

SamplingTeam::SamplingTeam(device::Stream& stream,
                           const kernels::KernelTable& kernels,
                           int vocab_size)
    : workers_(stream), passes_(make_row_passes(kernels)) {
  // For a device that is not the host, only the calling thread samples.
  const size_t num_samplers =
      stream.device().is_host_accessible() ? device::usable_cores().size() : 1;
  for (size_t i = 0; i < num_samplers; ++i) {
    samplers_.push_back(std::make_unique<sampling::Sampler>(vocab_size, *passes_));
  }
}

}  // namespace reprise::runner
