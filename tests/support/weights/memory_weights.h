#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// Tensors of a test, in memory, behind the interface of a checkpoint.
class MemoryWeights final : public WeightSource {
 public:
  template <typename T>
  MemoryWeights& add(const std::string& name,
                     DType dtype,
                     std::vector<int64_t> shape,
                     const std::vector<T>& values) {
    Stored& stored = tensors_[name];
    stored.spec = {.dtype = dtype, .shape = std::move(shape)};
    const auto bytes = std::as_bytes(std::span(values));
    stored.bytes.assign(bytes.begin(), bytes.end());
    return *this;
  }
  MemoryWeights& remove(std::string_view name) {
    tensors_.erase(tensors_.find(name));
    return *this;
  }

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second.spec;
  }
  [[nodiscard]] std::vector<std::string_view> names() const override {
    std::vector<std::string_view> names;
    for (const auto& [name, stored] : tensors_) names.push_back(name);
    return names;
  }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw FileError("E_MISSING", "memory", name, "no such tensor");
    convert(found->second.spec.dtype, found->second.bytes, dtype, dst);
  }
  [[nodiscard]] std::string description() const override { return "memory"; }

 private:
  struct Stored {
    TensorSpec spec;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Stored, std::less<>> tensors_;
};

}  // namespace reprise::weights
