#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights::gguf {

/// The weights of a GGUF model under their Hugging Face names, with rows in the order of the
/// checkpoint. Quantised tensors are reported as float32: read() dequantises them, and
/// read_panels() packs those whose formats kernels can read.
class GgufWeights final : public WeightSource {
 public:
  /// `config`: the number of heads that decides how rows of q and k are interleaved. \throws
  /// FileError E_DUPLICATE, E_SHAPE, and E_UNKNOWN for a tensor that the model does not have
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
    uint64_t bytes = 0;
    for (const Part& part : location_of(name).parts) {
      bytes += part.tensor->bytes / part.shares;
    }
    return bytes;
  }
  [[nodiscard]] std::string description() const override { return model_->path(); }

  /// "12 tensors in Q4_K, 1 tensor in Q6_K": the quantised tensors that no kernel can read in their
  /// stored form. Empty if there are none. For a log line.
  [[nodiscard]] std::string formats_without_panels() const;

 private:
  /// Rows of a file's tensor that are also neighbours in the checkpoint's tensor.
  struct Part {
    const GgufFile* file = nullptr;      // owned by model_
    const TensorInfo* tensor = nullptr;  // owned by *file
    uint64_t first_row = 0;              // of the tensor
    uint64_t num_rows = 0;
    uint64_t shares = 1;  // number of parts that share the stored tensor, including this one
    /// The rows are the columns of a matrix of the file that begins at first_row.
    bool is_transposed = false;
  };
  /// The places of one tensor of the checkpoint. Usually it has one part.
  struct Location {
    TensorSpec spec;
    std::vector<Part> parts;
    int64_t num_interleaved_heads = 0;
    ValueChange change = ValueChange::none;
    bool is_list = false;          // its rows are single elements
    uint64_t row_elements = 0;     // the same in all parts
    uint64_t rows_per_matrix = 1;  // for a tensor with the matrices of all experts

    [[nodiscard]] const TensorInfo& tensor() const { return *parts.front().tensor; }
    [[nodiscard]] uint64_t row_bytes(const Part& part) const {
      return is_list ? block_size(part.tensor->format).bytes : part.tensor->row_bytes();
    }
    [[nodiscard]] uint64_t num_rows() const {
      uint64_t sum = 0;
      for (const Part& part : parts) sum += part.num_rows;
      return sum;
    }
  };
  /// The file's tensors that together are one tensor of the checkpoint.
  struct Halves {
    std::optional<Location> first;
    std::optional<Location> last;
    int64_t num_groups = 1;
    std::vector<int64_t> pieces;  // of `first`: see CheckpointName
  };
  /// Called with the index of a row in a range of the checkpoint's rows, the row's stored bytes,
  /// and the part that contains it.
  using TakeRow =
      std::function<void(uint64_t row, std::span<const std::byte> stored, const Part& part)>;
  void for_each_row(const Location& location, RowRange rows, const TakeRow& take_row) const;
  void read_rows_of(const Location& location,
                    RowRange rows,
                    DType dtype,
                    std::span<std::byte> dst) const;
  void read_whole_transposed(const Location& location, DType dtype, std::span<std::byte> dst) const;
  [[nodiscard]] static RowRange rows_of_matrices(const Location& location, RowRange matrices);
  [[nodiscard]] const Location& location_of(std::string_view name) const;
  [[nodiscard]] static Location whole(const GgufFile& file, const TensorInfo& tensor);
  [[noreturn]] void fail_unknown(const GgufFile& file, const TensorInfo& tensor) const;
  [[noreturn]] static void fail_shape(const Location& location, std::string_view message);
  [[noreturn]] static void fail_twice(const Location& location, const Location& other);
  [[noreturn]] static void fail_dtype(const Location& location, DType dtype);

  void add(const GgufFile& file, const TensorInfo& tensor, const ModelConfig& config);
  /// Adds the matrices of all experts, which the file has in one tensor, each under its own name.
  void add_experts(const GgufFile& file,
                   const TensorInfo& tensor,
                   const ExpertMatricesName& experts,
                   const ModelConfig& config);
  void add(const std::string& name, const Location& location);
  static void add_rows_of_group(const Location& half,
                                uint64_t group,
                                const Halves& halves,
                                Location& joined);
  /// The tensor in which each group has first rows of `first`, then rows of `last`.
  [[nodiscard]] Location join(const std::string& name, const Halves& halves) const;

  std::shared_ptr<const GgufModel> model_;
  DecoderTensors names_;
  std::string_view model_class_;
  int64_t num_layers_ = 0;
  std::map<std::string, std::vector<int64_t>, std::less<>> expected_shapes_;
  std::map<std::string, Halves> halves_;  // while the constructor runs
  std::map<std::string, Location, std::less<>> tensors_;
};

}  // namespace reprise::weights::gguf
