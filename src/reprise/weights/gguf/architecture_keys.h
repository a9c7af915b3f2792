#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// The keys of a file that begin with its architecture: "llama.block_count". `metadata` must
/// outlive this object.
class ArchitectureKeys {
 public:
  /// \throws FileError E_CONFIG without general.architecture
  explicit ArchitectureKeys(const Metadata& metadata);

  /// A generous limit: parse_model_config() later checks the exact range of each member.
  static constexpr int64_t kMost = int64_t{1} << 40;

  [[nodiscard]] const std::string& architecture() const noexcept { return *architecture_; }
  [[nodiscard]] bool is_of(std::string_view architecture) const {
    return *architecture_ == architecture;
  }
  [[nodiscard]] bool has(std::string_view name) const { return metadata_->has(key(name)); }
  [[nodiscard]] bool is_array(std::string_view name) const {
    return metadata_->is_array(key(name));
  }
  /// Some files have a list with the number of each layer. As in llama.cpp, such a list counts as
  /// one number if it is the same for all layers.
  [[nodiscard]] int64_t required(std::string_view name) const;
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name) const;
  [[nodiscard]] std::optional<double> number(std::string_view name) const {
    return metadata_->number(key(name));
  }
  [[nodiscard]] std::optional<bool> boolean(std::string_view name) const {
    return metadata_->boolean(key(name));
  }
  [[nodiscard]] const std::string* string(std::string_view name) const {
    return metadata_->string(key(name));
  }
  /// The number of layers of the main model. block_count also counts the layers after them that
  /// predict tokens further ahead (MTP).
  [[nodiscard]] int64_t num_layers() const;
  /// A list with a number for each of `count` layers, or one number that all of them share.
  [[nodiscard]] std::vector<int64_t> integers(std::string_view name, int64_t count) const;
  /// The same for numbers that need not be integers. \pre has(name)
  [[nodiscard]] std::vector<double> numbers(std::string_view name, int64_t count) const;

  [[noreturn]] void fail(std::string_view name, std::string_view message) const {
    metadata_->fail(key(name), message);
  }

 private:
  [[nodiscard]] int64_t number_of_all_layers(std::string_view name) const;
  /// Returns `count`, unless it is more than a file can have. \throws FileError E_CONFIG
  [[nodiscard]] int64_t count_of_layers(int64_t count) const;
  [[nodiscard]] std::string key(std::string_view name) const {
    return *architecture_ + "." + std::string(name);
  }

  const Metadata* metadata_;
  const std::string* architecture_;  // owned by the metadata
};

}  // namespace reprise::weights::gguf
