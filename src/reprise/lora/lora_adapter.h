#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/lora/lora_layer.h"

namespace reprise::lora {

/// One adapter in host memory, ready to be copied into a slot. Immutable, so any thread may read
/// it. Requests share it, so it stays in memory while one of them runs, also after it was unloaded.
class LoraAdapter {
 public:
  /// The bytes of A and B for one layer's slot. Both are empty if the adapter does not change the
  /// layer.
  struct Image {
    std::vector<std::byte> a;
    std::vector<std::byte> b;
  };

  /// Reads a PEFT adapter: a folder with adapter_config.json and adapter_model.safetensors.
  /// `layers` are those of the model. `id` is never 0 and never used twice, because cached prefixes
  /// are found by it.
  /// \throws FileError for features that are not supported, modules that the model does not offer,
  /// wrong shapes, and files that cannot be read
  [[nodiscard]] static std::shared_ptr<const LoraAdapter> load(std::string name,
                                                               const std::filesystem::path& folder,
                                                               const std::deque<LoraLayer>& layers,
                                                               uint64_t id);

  /// The name that requests use.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] uint64_t id() const noexcept { return id_; }
  [[nodiscard]] int64_t rank() const noexcept { return rank_; }
  /// The folder that it was read from.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// A digest of its matrices, as the layers of this model use them.
  [[nodiscard]] uint64_t digest() const noexcept { return digest_; }
  [[nodiscard]] const Image& image(size_t layer) const { return images_.at(layer); }
  [[nodiscard]] size_t total_bytes() const noexcept;

 private:
  LoraAdapter(std::string name,
              std::filesystem::path folder,
              uint64_t id,
              int64_t rank,
              std::vector<Image> images);

  std::string name_;
  std::filesystem::path folder_;
  uint64_t id_;
  int64_t rank_;
  std::vector<Image> images_;  // by layer
  uint64_t digest_;
};

}  // namespace reprise::lora
