#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// A base for sources that differ from another source in some tensors: every member forwards to
/// that source. A class that changes the content of a tensor overrides all members that read it, or
/// reports by panel_format() and reads_rows() that the tensor cannot be read in that way.
class WrappedWeights : public WeightSource {
 public:
  explicit WrappedWeights(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {}

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override {
    return source_->find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return source_->names(); }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    source_->read(name, dtype, dst);
  }
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override {
    return source_->panel_format(name);
  }
  void read_panels(std::string_view name, std::span<std::byte> dst) const override {
    source_->read_panels(name, dst);
  }
  [[nodiscard]] bool reads_rows(std::string_view name) const override {
    return source_->reads_rows(name);
  }
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override {
    source_->read_rows(name, rows, dtype, dst);
  }
  void read_panel_rows(std::string_view name,
                       RowRange rows,
                       std::span<std::byte> dst) const override {
    source_->read_panel_rows(name, rows, dst);
  }
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override {
    return source_->stored_bytes(name);
  }
  [[nodiscard]] std::string description() const override { return source_->description(); }

 protected:
  [[nodiscard]] const WeightSource& source() const noexcept { return *source_; }

 private:
  std::unique_ptr<WeightSource> source_;
};

}  // namespace reprise::weights
