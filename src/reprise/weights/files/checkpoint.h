#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/files/safetensors.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The weights of a model directory: `model.safetensors`, or the shards that
/// `model.safetensors.index.json` lists, or else all `.safetensors` files.
///
/// Every file is opened and validated by open(); reading afterwards can fail only because a file
/// changed or the disk failed. Holds one descriptor per shard.
class Checkpoint final : public WeightSource {
 public:
  /// \throws FileError E_MISSING, E_PATH, E_INDEX, and what SafetensorsFile throws.
  [[nodiscard]] static Checkpoint open(const ModelDirectory& directory);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] bool reads_rows(std::string_view name) const override;
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override;
  [[nodiscard]] std::string description() const override { return path_; }

  /// Bytes of all tensors as stored.
  [[nodiscard]] uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Warnings for people about unusual content that does not prevent loading.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  struct Location {
    const SafetensorsFile* file;  // owned by files_
    const TensorEntry* tensor;    // owned by *file
  };

  explicit Checkpoint(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] const Location& location_of(std::string_view name) const;
  /// Reads elements from `first` on, until `dst` is full.
  static void read_elements(const Location& location,
                            uint64_t first,
                            DType dtype,
                            std::span<std::byte> dst);
  const SafetensorsFile& add_file(InputFile file);
  void add_shards(const ModelDirectory& directory, std::string_view index_name);

  std::string path_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string_view, Location, std::less<>> tensors_;  // views into the files' entries
  uint64_t total_bytes_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace reprise::weights
