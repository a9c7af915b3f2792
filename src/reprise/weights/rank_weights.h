#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/weights/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// One rank of a tensor-parallel group.
struct RankOfModel {
  int64_t rank = 0;
  int64_t size = 1;
};

/// The config of one rank: its heads, its share of the MLP, and the number of ranks. The vocabulary
/// stays whole. \throws InvalidArgument that names what cannot be divided, or what is not ready for
/// several ranks
[[nodiscard]] ModelConfig config_of_rank(const ModelConfig& whole, int64_t ranks);

/// The config of one rank of several among which the layers are divided.
/// \throws InvalidArgument if there are too few layers, or for models that are not ready for it
[[nodiscard]] ModelConfig config_of_stage(const ModelConfig& whole, int64_t rank, int64_t ranks);

/// The rows of the vocabulary whose logits each rank computes; those of the last rank may end with
/// padding. A multiple of 64, so that the weights can be loaded in panels.
[[nodiscard]] int64_t vocab_rows_of_rank(int64_t vocab_size, int64_t ranks);

/// The part of a model's weights that one rank has. Names are those of the whole source. Q, k, v,
/// gate, up and lm_head are cut into rows (column parallel, in the words of the field), o and down
/// into columns (row parallel). Biases of o and down are zero on all ranks but the first, because
/// the results of the ranks are added. Every other tensor is whole. `lm_head` is there even if the
/// model ties it to the embedding.
///
/// Reading a part reads the whole tensor first.
class RankWeights final : public WeightSource {
 public:
  /// `whole`: the config of the source. \pre config_of_rank(whole, rank.size) does not throw
  /// \throws InvalidArgument for weights that kernels read as they are stored, in blocks
  RankWeights(std::unique_ptr<WeightSource> source, const ModelConfig& whole, RankOfModel rank);
  /// The weights of a rank that has whole layers (config_of_stage): only lm_head is cut.
  [[nodiscard]] static std::unique_ptr<RankWeights> of_stage(std::unique_ptr<WeightSource> source,
                                                             const ModelConfig& whole,
                                                             RankOfModel rank);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::string description() const override { return source_->description(); }

 private:
  struct Range {
    int64_t begin = 0;
    int64_t count = 0;
  };
  /// Ranges of rows or columns, one after the other. Entries beyond the tensor are zeros.
  struct Part {
    std::string stored_name;
    int dim = 0;
    std::vector<Range> ranges;
    TensorSpec spec;
  };

  void add(const std::string& name, int dim, std::vector<Range> ranges);
  void add_as(const std::string& name,
              const std::string& stored_name,
              int dim,
              std::vector<Range> ranges);
  explicit RankWeights(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {}
  void add_head(const ModelConfig& whole, RankOfModel rank);
  void add_layer(const ModelConfig& whole, RankOfModel rank, int64_t layer);

  std::unique_ptr<WeightSource> source_;
  std::map<std::string, Part, std::less<>> parts_;
};

}  // namespace reprise::weights
