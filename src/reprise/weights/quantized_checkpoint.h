#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/quantization_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// A GPTQ or AWQ checkpoint as a source of ordinary weights. Such a checkpoint stores a matrix
/// "M.weight" as "M.qweight" (codes of four or eight bits in words), "M.qzeros", "M.scales" and,
/// for GPTQ, "M.g_idx": element k of output n is scale[group of k, n] * (code - zero[group, n]).
///
/// Matrices whose groups are neighbouring elements stay packed; the others are dequantised (GPTQ
/// with desc_act orders groups by activation). Immutable; thread-safe.
class QuantizedCheckpoint final : public WeightSource {
 public:
  /// \throws FileError E_MISSING, E_SHAPE, E_DTYPE when the tensors of a matrix do not fit together
  QuantizedCheckpoint(std::unique_ptr<WeightSource> source, const QuantizationConfig& config);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override;
  [[nodiscard]] std::string description() const override { return source_->description(); }

  /// "12 matrices": those that do not stay packed. Empty when all do. For a log line.
  [[nodiscard]] std::string matrices_without_panels() const;

 private:
  struct Matrix {
    TensorSpec spec;     // of M.weight: [outputs, depth]
    std::string module;  // M
    int64_t num_groups = 0;
    std::vector<int32_t> group_of;  // by element; empty: groups are neighbouring elements
    std::optional<PanelFormat> panels;
  };
  /// The parts of one matrix, read and unpacked.
  struct Unpacked;

  void add(std::string_view module);
  [[nodiscard]] const TensorSpec& required(const std::string& name) const;
  void require_shape(const std::string& name, const std::vector<int64_t>& shape) const;
  void read_group_order(Matrix& matrix, const std::string& name) const;
  [[nodiscard]] std::optional<PanelFormat> panels_of(const Matrix& matrix) const;
  [[nodiscard]] std::vector<uint32_t> words_of(const std::string& name) const;
  [[nodiscard]] Unpacked unpack(const Matrix& matrix) const;
  [[nodiscard]] std::vector<uint16_t> zeros_of(const Matrix& matrix) const;
  [[nodiscard]] const Matrix* matrix_of(std::string_view name) const;
  [[nodiscard]] int64_t group_size(const Matrix& matrix) const;

  std::unique_ptr<WeightSource> source_;
  QuantizationConfig config_;
  std::map<std::string, Matrix, std::less<>> matrices_;  // by "M.weight"
  std::vector<std::string_view> names_;                  // sorted
};

}  // namespace reprise::weights
