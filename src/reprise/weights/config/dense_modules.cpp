#include "reprise/weights/config/dense_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "reprise/weights/files/checkpoint.h"
#include "reprise/weights/files/model_directory.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kLinear = "linear.";  // before the tensors of a module

class WithDenseModules final : public WeightSource {
 public:
  WithDenseModules(std::unique_ptr<WeightSource> source,
                   const ModelConfig& config,
                   const ModelDirectory& model)
      : source_(std::move(source)) {
    const std::vector<DenseModule>& modules = config.pooling->dense;
    for (size_t i = 0; i < modules.size(); ++i) {
      checkpoints_.push_back(
          std::make_unique<const Checkpoint>(Checkpoint::open(model.folder(modules[i].folder))));
      for (const std::string_view stored : checkpoints_.back()->names()) {
        const std::string_view tensor =
            stored.starts_with(kLinear) ? stored.substr(kLinear.size()) : stored;
        places_.emplace(dense_tensor_name(i, tensor),
                        Place{.source = checkpoints_.back().get(), .name = std::string(stored)});
      }
    }
  }

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override {
    const Place* place = find_place(name);
    return place == nullptr ? source_->find(name) : place->source->find(place->name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override {
    std::vector<std::string_view> names = source_->names();
    for (const auto& [name, place] : places_) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    const Place* place = find_place(name);
    if (place == nullptr) return source_->read(name, dtype, dst);
    place->source->read(place->name, dtype, dst);
  }
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override {
    return find_place(name) == nullptr ? source_->panel_format(name) : std::nullopt;
  }
  void read_panels(std::string_view name, std::span<std::byte> dst) const override {
    source_->read_panels(name, dst);
  }
  [[nodiscard]] bool reads_rows(std::string_view name) const override {
    return find_place(name) == nullptr && source_->reads_rows(name);
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
    const Place* place = find_place(name);
    return place == nullptr ? source_->stored_bytes(name)
                            : place->source->stored_bytes(place->name);
  }
  [[nodiscard]] std::string description() const override { return source_->description(); }

 private:
  struct Place {
    const Checkpoint* source;  // owned by checkpoints_
    std::string name;
  };

  [[nodiscard]] const Place* find_place(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &found->second;
  }

  std::unique_ptr<WeightSource> source_;
  std::vector<std::unique_ptr<const Checkpoint>> checkpoints_;  // one for each module
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace

std::string dense_tensor_name(size_t index, std::string_view tensor) {
  return fmt::format("sentence_transformers.dense.{}.{}", index, tensor);
}

std::unique_ptr<WeightSource> with_dense_modules(std::unique_ptr<WeightSource> source,
                                                 const ModelConfig& config,
                                                 const std::filesystem::path& model) {
  if (!config.pooling || config.pooling->dense.empty()) return source;
  return std::make_unique<WithDenseModules>(std::move(source), config, ModelDirectory(model));
}

}  // namespace reprise::weights
