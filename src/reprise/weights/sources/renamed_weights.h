#pragma once

#include <map>
#include <memory>
#include <string>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// Wraps a source whose tensors have other names.
class RenamedWeights final : public WeightSource {
 public:
  /// `stored_names`: the stored name, by the name under which a tensor is found. Tensors that are
  /// not listed cannot be found.
  RenamedWeights(std::unique_ptr<WeightSource> source,
                 std::map<std::string, std::string, std::less<>> stored_names);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  [[nodiscard]] bool reads_rows(std::string_view name) const override {
    return source_->reads_rows(stored_name(name));
  }
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override {
    source_->read_rows(stored_name(name), rows, dtype, dst);
  }
  void read_panel_rows(std::string_view name,
                       RowRange rows,
                       std::span<std::byte> dst) const override {
    source_->read_panel_rows(stored_name(name), rows, dst);
  }
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override;
  [[nodiscard]] std::string description() const override;

 private:
  [[nodiscard]] const std::string& stored_name(std::string_view name) const;

  std::unique_ptr<WeightSource> source_;
  std::map<std::string, std::string, std::less<>> stored_names_;
};

/// The source under the names of the class that `config` names. Some checkpoints were saved from
/// the decoder without its head, so that their names lack the first part: "h.0.ln_1.weight" instead
/// of "transformer.h.0.ln_1.weight". Of models that also read images, only the language model can
/// be found (text_part.h). Other sources are returned unchanged.
[[nodiscard]] std::unique_ptr<WeightSource> with_class_names(std::unique_ptr<WeightSource> source,
                                                             const ModelConfig& config);

}  // namespace reprise::weights
