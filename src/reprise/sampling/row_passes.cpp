#include "reprise/sampling/row_passes.h"

#include <algorithm>
#include <cmath>

namespace reprise::sampling {
namespace {

class PlainRowPasses final : public RowPasses {
 public:
  [[nodiscard]] bool find_maxima(std::span<const float> logits,
                                 std::span<float> maxima) const override {
    bool is_allowed = true;
    for (size_t begin = 0; begin < logits.size(); begin += kPartSize) {
      float largest = -INFINITY;
      for (const float logit : part_of(logits, begin)) {
        is_allowed = is_allowed && logit < INFINITY;  // false for NaN too
        largest = std::max(largest, logit);
      }
      maxima[begin / kPartSize] = largest;
    }
    return is_allowed;
  }

  void sum_parts(const LogitRow& row,
                 const WeightScale& scale,
                 float least,
                 std::span<float> sums) const override {
    for (size_t begin = 0; begin < row.logits.size(); begin += kPartSize) {
      float sum = 0.0F;
      for (const float logit : part_of(row.logits, begin)) {
        if (logit >= least) sum += weight(logit, scale);
      }
      sums[begin / kPartSize] = sum;
    }
  }

  [[nodiscard]] Masses sum_above(const LogitRow& row,
                                 const WeightScale& scale,
                                 const Levels& levels) const override {
    Masses masses{};
    for (const float logit : row.logits) {
      const double w = weight(logit, scale);
      for (size_t i = 0; i < kNumLevels; ++i) masses[i] += logit >= levels[i] ? w : 0.0;
    }
    return masses;
  }

  void weigh(std::span<const float> logits,
             const WeightScale& scale,
             std::span<float> weights) const override {
    for (size_t i = 0; i < logits.size(); ++i) weights[i] = weight(logits[i], scale);
  }

 private:
  static std::span<const float> part_of(std::span<const float> logits, size_t begin) {
    return logits.subspan(begin, std::min(kPartSize, logits.size() - begin));
  }
  static float weight(float logit, const WeightScale& scale) {
    return std::exp((logit - scale.max) * scale.inverse_temperature);
  }
};

}  // namespace

std::unique_ptr<RowPasses> make_plain_row_passes() { return std::make_unique<PlainRowPasses>(); }

const RowPasses& plain_row_passes() {
  static const PlainRowPasses passes;
  return passes;
}

}  // namespace reprise::sampling
