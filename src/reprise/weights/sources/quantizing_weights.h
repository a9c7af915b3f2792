#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "reprise/weights/wrapped_weights.h"

namespace reprise::weights {

/// How matrices are quantised while they are loaded (`--quantization`). int8: one scale per output.
/// q8_0: one scale per 32 elements. int4: four bits with one scale per 32 elements, and eight bits
/// (q8_0) for the embedding and the logits. fp8: float8 E4M3 with one scale per output, only in the
/// layers, as in vLLM.
enum class LoadQuantization : uint8_t { int8, int4, q8_0, fp8 };

/// Wraps a source and offers its matrices in packed form, quantised row by row as they are read.
/// Matrices that the source has packed stay unchanged. Vectors, routers of experts, and matrices
/// whose rows are not whole blocks, are read as numbers.
class QuantizingWeights final : public WrappedWeights {
 public:
  QuantizingWeights(std::unique_ptr<WeightSource> source, LoadQuantization method)
      : WrappedWeights(std::move(source)), method_(method) {}

  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  void read_panel_rows(std::string_view name,
                       RowRange rows,
                       std::span<std::byte> dst) const override;

 private:
  /// Writes rows of numbers as panels.
  void quantize_rows(std::string_view name,
                     std::span<const float> values,
                     std::span<std::byte> dst) const;

  LoadQuantization method_;
};

}  // namespace reprise::weights
