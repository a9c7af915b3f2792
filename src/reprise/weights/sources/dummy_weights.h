#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// Weights made up from a seed, for any configuration (`--load-format dummy`).
///
/// An element depends on (seed, tensor name, index) alone, so it is the same on every machine, for
/// every order and thread of reading, and for every extent of the other dimensions. Norms are 1.
/// All other weights are bell-shaped around 0 with the standard deviation 0.02 with which these
/// models start training. A tied lm_head is absent.
class DummyWeights final : public WeightSource {
 public:
  DummyWeights(const ModelConfig& config, uint64_t seed);
  /// Makes those of these tensors that are required.
  DummyWeights(const std::vector<ExpectedTensor>& tensors, DType dtype, uint64_t seed);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] bool reads_rows(std::string_view name) const override;
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override;
  [[nodiscard]] std::string description() const override;

 private:
  struct Entry {
    TensorSpec spec;
    WeightRole role;
  };

  /// \throws FileError E_MISSING, E_DTYPE
  [[nodiscard]] const Entry& entry_of(std::string_view name, DType dtype) const;
  /// Makes elements from `first` on, until `dst` is full.
  void make_elements(std::string_view name,
                     uint64_t first,
                     DType dtype,
                     std::span<std::byte> dst) const;

  uint64_t seed_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace reprise::weights
