#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// How the ranks of an engine divide its model, and which rank this is. A stage is a group of
/// tensor ranks with consecutive numbers.
struct RankOfModel {
  int64_t rank = 0;          // of the engine
  int64_t tensor_ranks = 1;  // that share each layer
  int64_t stages = 1;        // among which the layers are divided
  /// Each rank has some whole experts; false: each rank has a part of every expert.
  bool divides_experts = false;
  /// The number of this rank's engine, and the number of engines that divide the experts; 1: each
  /// engine has all experts.
  int64_t engine = 0;
  int64_t engines = 1;

  [[nodiscard]] int64_t num_ranks() const noexcept { return tensor_ranks * stages; }
  [[nodiscard]] int64_t tensor_rank() const noexcept { return rank % tensor_ranks; }
  [[nodiscard]] int64_t stage() const noexcept { return rank / tensor_ranks; }
};

/// The experts of one part of several: neighbours, in parts that are as equal as possible; the
/// first parts may have one expert more. Source: vLLM's placement `linear` (determine_expert_map).
[[nodiscard]] ExpertRange experts_of_part(int64_t num_experts, int64_t part, int64_t parts);

/// The config of one rank: its heads, its share of the MLP, its layers, its experts. The vocabulary
/// stays whole. \throws InvalidArgument that names what cannot be divided, or what does not support
/// several ranks yet
[[nodiscard]] ModelConfig config_of_rank(const ModelConfig& whole, const RankOfModel& rank);

/// The number of vocabulary rows whose logits each rank computes; those of the last rank may end
/// with padding. A multiple of 64, so that the weights can be loaded in panels.
[[nodiscard]] int64_t vocab_rows_of_rank(int64_t vocab_size, int64_t ranks);

/// The part of a model's weights that one rank has. Names are those of the whole source. Q, k, v,
/// gate, up and lm_head are cut into rows (column parallel, in the words of the field), o and down
/// into columns (row parallel), in experts too. Biases of o and down are zero on all ranks but the
/// first, because the results of the ranks are added. Where ranks divide the experts, each expert
/// is whole, and a tensor of all experts of a layer is cut to those of this rank. Every other
/// tensor is whole. `lm_head` is there even if the model ties it to the embedding.
///
/// Reading a part reads the whole tensor first.
class RankWeights final : public WeightSource {
 public:
  /// `whole`: the config of the source. \pre config_of_rank(whole, rank) does not throw \throws
  /// InvalidArgument for weights that kernels read in their stored form, in blocks
  RankWeights(std::unique_ptr<WeightSource> source,
              const ModelConfig& whole,
              const RankOfModel& rank);

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

  class Layer;
  void add(const std::string& name, int dim, std::vector<Range> ranges);
  void add_as(const std::string& name,
              const std::string& stored_name,
              int dim,
              std::vector<Range> ranges);
  void add_head(const ModelConfig& whole, const RankOfModel& rank);
  /// Adds tensors with the matrices of all experts of a layer.
  void add_stacked_experts(const ModelConfig& whole, ExpertRange experts, int64_t layer);

  std::unique_ptr<WeightSource> source_;
  std::map<std::string, Part, std::less<>> parts_;
};

}  // namespace reprise::weights
