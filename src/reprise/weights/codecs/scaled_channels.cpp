#include "reprise/weights/codecs/scaled_channels.h"

#include <string>
#include <utility>
#include <vector>

#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/wrapped_weights.h"

namespace reprise::weights {
namespace {

/// The multiplier of each channel of a convolution: values, then B, then C.
std::vector<float> channel_multipliers(const ModelConfig& config) {
  const RecurrentConfig& layers = *config.recurrent;
  std::vector<float> multipliers;
  const auto append = [&](int64_t count, double multiplier) {
    multipliers.insert(
        multipliers.end(), static_cast<size_t>(count), static_cast<float>(multiplier));
  };
  append(layers.value_size(), config.multipliers.values);
  append(layers.group_size(), config.multipliers.b);
  append(layers.group_size(), config.multipliers.c);
  return multipliers;
}

class ScaledChannels final : public WrappedWeights {
 public:
  ScaledChannels(std::unique_ptr<WeightSource> source, const ModelConfig& config)
      : WrappedWeights(std::move(source)),
        suffix_(config_suffix(config)),
        multipliers_(channel_multipliers(config)) {}

  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override {
    return is_scaled(name) ? std::nullopt : source().panel_format(name);
  }
  [[nodiscard]] bool reads_rows(std::string_view name) const override {
    return !is_scaled(name) && source().reads_rows(name);
  }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    if (!is_scaled(name)) return source().read(name, dtype, dst);
    std::vector<float> values(dst.size() / dtype_bytes(dtype));
    source().read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    const size_t per_channel = values.size() / multipliers_.size();
    for (size_t i = 0; i < values.size(); ++i) values[i] *= multipliers_[i / per_channel];
    convert(DType::f32, std::as_bytes(std::span(values)), dtype, dst);
  }

 private:
  static std::string config_suffix(const ModelConfig& config) {
    const DecoderTensors names = decoder_tensors(config);
    return std::string(names.mixer).append(names.mixer_conv).append(".weight");
  }
  // A tensor with another shape is refused before it is read.
  [[nodiscard]] bool is_scaled(std::string_view name) const { return name.ends_with(suffix_); }

  std::string suffix_;              // of the names of the convolutions
  std::vector<float> multipliers_;  // one per channel
};

}  // namespace

std::unique_ptr<WeightSource> with_scaled_channels(std::unique_ptr<WeightSource> source,
                                                   const ModelConfig& config) {
  const LayerMultipliers& multipliers = config.multipliers;
  const bool has_none = multipliers.values == 1 && multipliers.b == 1 && multipliers.c == 1;
  if (has_none || !config.recurrent) return source;
  return std::make_unique<ScaledChannels>(std::move(source), config);
}

}  // namespace reprise::weights
