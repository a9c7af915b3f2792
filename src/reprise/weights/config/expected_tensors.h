#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The role of a tensor, which decides how it is initialised and checked.
enum class WeightRole : uint8_t { matrix, bias, norm };

enum class Presence : uint8_t { required, optional };

struct ExpectedTensor {
  std::string name;  // Hugging Face naming
  std::vector<int64_t> shape;
  WeightRole role = WeightRole::matrix;
  Presence presence = Presence::required;

  bool operator==(const ExpectedTensor&) const = default;
};

/// Every tensor that a model of this configuration has, in the order of its forward pass. A tied
/// `lm_head.weight` is optional, because it is a copy of the embedding and is never read. The
/// `lm_head.weight` of a model that gives vectors is optional too.
[[nodiscard]] std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

/// Parameters of the model; a tied embedding counts once.
[[nodiscard]] int64_t num_parameters(const ModelConfig& config);

/// Checks that `source` has these tensors. `model` names them in messages. Returns warnings about
/// tensors that are in neither list; `read_elsewhere`: names of tensors that other code reads.
/// \throws FileError as verify_weights
[[nodiscard]] std::vector<std::string> verify_tensors(const std::vector<ExpectedTensor>& expected,
                                                      std::string_view model,
                                                      const WeightSource& source,
                                                      std::string_view read_elsewhere = {});

/// Checks that `source` has all tensors that `config` needs. Returns warnings about tensors that
/// the model does not use. \throws FileError E_MISSING naming the tensor, E_SHAPE_MISMATCH with
/// both shapes, E_DTYPE.
[[nodiscard]] std::vector<std::string> verify_weights(const ModelConfig& config,
                                                      const WeightSource& source);

}  // namespace reprise::weights
