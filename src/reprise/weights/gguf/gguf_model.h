#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/config/generation_config.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/config/pooling_type.h"
#include "reprise/weights/gguf/gguf_file.h"

namespace reprise::weights::gguf {

/// Divisors of the rotary frequencies, one per pair of elements (Llama 3.1 and later).
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";

/// Whether `path` names a GGUF file, by its ending.
[[nodiscard]] bool is_gguf_path(const std::filesystem::path& path);

/// A model in one GGUF file, or in all parts of a split one. Immutable; thread-safe.
class GgufModel {
 public:
  /// `path`: the file, or the first of the files "NAME-00001-of-0000N.gguf".
  /// \throws FileError as GgufFile, and E_SPLIT when the parts do not fit together
  [[nodiscard]] static std::shared_ptr<const GgufModel> open(const std::filesystem::path& path);

  /// The configuration. Errors name the metadata key or, for a value out of range, the member of
  /// config.json that the key stands for. `overrides`: see override_config.
  [[nodiscard]] LoadedModelConfig config(const Json& overrides = Json::object()) const;
  /// End tokens and recommended sampling parameters.
  [[nodiscard]] GenerationConfig generation_config(const Json& overrides = Json::object()) const;
  /// How vectors of texts are made, by the file; nothing: the file does not say.
  [[nodiscard]] std::optional<PoolingConfig> pooling_config() const;
  /// The first layer that is not read, because it and the later ones predict tokens further ahead
  /// (MTP); the largest integer if the file has no such layers.
  [[nodiscard]] int64_t end_of_layers() const;
  /// The text of the tokenizer.json and of the tokenizer_config.json (names of control tokens, chat
  /// template) that this model would have. \throws FileError E_TOKENIZER
  [[nodiscard]] std::string tokenizer_json() const;
  [[nodiscard]] std::string tokenizer_config_json() const;

  /// Metadata of the first file.
  [[nodiscard]] const Metadata& metadata() const { return files_.front()->metadata(); }
  [[nodiscard]] const std::vector<std::unique_ptr<const GgufFile>>& files() const { return files_; }
  [[nodiscard]] const std::string& path() const { return files_.front()->path(); }

 private:
  struct FoundTensor {
    const GgufFile* file = nullptr;
    const TensorInfo* tensor = nullptr;  // nullptr when no file has it
  };

  GgufModel() = default;
  void add_parts(const std::filesystem::path& path);
  [[nodiscard]] FoundTensor find(std::string_view name) const;
  /// The number of rows of a matrix; 0 if there is none with this name.
  [[nodiscard]] int64_t rows_of(std::string_view name) const;
  /// Names of the tensors of all files, without the number of the layer.
  [[nodiscard]] std::set<std::string, std::less<>> tensor_names() const;
  /// The layers that have a tensor of this name.
  [[nodiscard]] std::set<int64_t> layers_with(std::string_view tensor_name) const;
  /// The factors in this tensor, `expected` of them if given; empty if the tensor does not exist.
  [[nodiscard]] std::vector<double> rope_factors(std::string_view name,
                                                 std::optional<int64_t> expected) const;

  std::vector<std::unique_ptr<const GgufFile>> files_;
};

}  // namespace reprise::weights::gguf
