#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "reprise/weights/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights::gguf {

/// The weights of a GGUF model under their Hugging Face names, with rows in the order of the
/// checkpoint. Quantised tensors say they are float32: read() dequantises them, and read_panels()
/// packs those of formats that kernels read.
class GgufWeights final : public WeightSource {
 public:
  /// `config` tells how many heads the rows of q and k are interleaved by.
  /// \throws FileError E_DUPLICATE, E_SHAPE
  GgufWeights(std::shared_ptr<const GgufModel> model, const ModelConfig& config);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  [[nodiscard]] bool reads_rows(std::string_view name) const override;
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override;
  void read_panel_rows(std::string_view name,
                       RowRange rows,
                       std::span<std::byte> dst) const override;
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override {
    const Location& location = location_of(name);
    return location.tensor->bytes / location.num_experts;
  }
  [[nodiscard]] std::string description() const override { return model_->path(); }

  /// "12 tensors in Q4_K, 1 tensor in Q6_K": the quantised tensors that no kernel reads as they are
  /// stored. Empty when there are none. For a log line.
  [[nodiscard]] std::string formats_without_panels() const;

 private:
  struct Location;
  /// Called with the index of a row in a range of the checkpoint's rows, and its bytes as stored.
  using TakeRow = std::function<void(uint64_t row, std::span<const std::byte> stored)>;
  void for_each_row(const Location& location, RowRange rows, const TakeRow& take_row) const;
  [[nodiscard]] const Location& location_of(std::string_view name) const;

  struct Location {
    TensorSpec spec;
    const GgufFile* file = nullptr;      // owned by model_
    const TensorInfo* tensor = nullptr;  // owned by *file
    int64_t num_interleaved_heads = 0;
    uint64_t first_row = 0;    // of the tensor: an expert has some of its rows
    uint64_t num_experts = 1;  // that share the tensor evenly

    // A bias has a row per element: its rows are interleaved too.
    [[nodiscard]] bool is_list_of_elements() const {
      return tensor->shape.size() == 1 && block_size(tensor->format).num_elements == 1;
    }
    [[nodiscard]] uint64_t row_bytes() const {
      return is_list_of_elements() ? block_size(tensor->format).bytes : tensor->row_bytes();
    }
    [[nodiscard]] uint64_t num_rows() const { return tensor->bytes / row_bytes() / num_experts; }
    [[nodiscard]] uint64_t row_elements() const {
      return is_list_of_elements() ? 1 : static_cast<uint64_t>(tensor->row_elements());
    }
  };

  void add(const GgufFile& file, const TensorInfo& tensor, const ModelConfig& config);
  /// The matrices of all experts in one tensor, each under its own name.
  void add_experts(const GgufFile& file,
                   const TensorInfo& tensor,
                   const ExpertMatricesName& experts,
                   const ModelConfig& config);
  void add(const std::string& name, const Location& location);

  std::shared_ptr<const GgufModel> model_;
  std::map<std::string, Location, std::less<>> tensors_;
};

}  // namespace reprise::weights::gguf
