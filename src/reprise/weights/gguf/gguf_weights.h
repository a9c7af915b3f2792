#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights::gguf {

/// The weights of a GGUF model under their Hugging Face names, with rows in the order of the
/// checkpoint. Quantised tensors say they are float32 and are dequantised while they are read.
class GgufWeights final : public WeightSource {
 public:
  /// `config` tells how many heads the rows of q and k are interleaved by.
  /// \throws FileError E_DUPLICATE, E_SHAPE
  GgufWeights(std::shared_ptr<const GgufModel> model, const ModelConfig& config);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::string description() const override { return model_->path(); }

  /// "169 tensors in Q4_0, 1 in Q6_K"; empty when no tensor is quantised. For a log line.
  [[nodiscard]] std::string quantised_formats() const;

 private:
  struct Location {
    TensorSpec spec;
    const GgufFile* file = nullptr;      // owned by model_
    const TensorInfo* tensor = nullptr;  // owned by *file
    int64_t num_interleaved_heads = 0;
  };

  void add(const GgufFile& file, const TensorInfo& tensor, const ModelConfig& config);

  std::shared_ptr<const GgufModel> model_;
  std::map<std::string, Location, std::less<>> tensors_;
};

}  // namespace reprise::weights::gguf
