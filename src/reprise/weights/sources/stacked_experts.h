#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/wrapped_weights.h"

namespace reprise::weights {

/// Checkpoints that store the matrices of all experts of a layer in one tensor: [experts, 2 * size,
/// hidden], with the rows of the gate, then those of up, and [experts, hidden, size]. Presents them
/// as matrices of single experts, which other checkpoints of the same architecture have. All other
/// tensors are those of `source`. Llama 4 has these matrices transposed: [experts, hidden, 2 *
/// size] and [experts, size, hidden].
class StackedExperts final : public WrappedWeights {
 public:
  /// The rows of one expert's matrix, in the tensor of all experts.
  struct Part {
    std::string stored_name;
    int64_t expert = 0;
    int64_t first_row = 0;  // of the expert's matrix
    bool is_transposed = false;
    TensorSpec spec;  // of the part
  };
  StackedExperts(std::unique_ptr<WeightSource> source,
                 std::map<std::string, Part, std::less<>> parts);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  [[nodiscard]] bool reads_rows(std::string_view name) const override;
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override;

 private:
  std::map<std::string, Part, std::less<>> parts_;
};

/// The source with a separate matrix for each expert. A source without stacked experts is returned
/// unchanged. \throws FileError E_SHAPE for a stacked tensor whose sizes are not those of the
/// config
[[nodiscard]] std::unique_ptr<WeightSource> with_single_experts(
    std::unique_ptr<WeightSource> source, const ModelConfig& config);

}  // namespace reprise::weights
