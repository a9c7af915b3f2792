#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/weights/config/generation_config.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/config/pooling_type.h"
#include "reprise/weights/gguf/gguf_model.h"

namespace reprise::api {

/// The files of a model: a model folder, or a GGUF file. A GGUF file is opened and checked once, by
/// the constructor, and stays open for all readers. Immutable; thread-safe.
class ModelFiles {
 public:
  /// \throws FileError for a GGUF file that cannot be read; a folder is checked by its readers
  explicit ModelFiles(std::filesystem::path path);

  /// \throws FileError, as do all readers
  [[nodiscard]] weights::LoadedModelConfig config(const Json& overrides) const;
  /// How vectors of texts are made; nothing: the files do not say.
  [[nodiscard]] std::optional<weights::PoolingConfig> pooling_config(
      std::vector<std::string>& warnings) const;
  /// The recommended sampling parameters, and the tokens that end an answer.
  [[nodiscard]] weights::GenerationConfig generation_config(
      const Json& overrides = Json::object()) const;
  [[nodiscard]] tokenizer::Tokenizer tokenizer() const;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// nullptr: the model is a folder.
  [[nodiscard]] const std::shared_ptr<const weights::gguf::GgufModel>& gguf() const noexcept {
    return gguf_;
  }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const weights::gguf::GgufModel> gguf_;
};

/// `opened` if these are the files at `path`; otherwise opens the files at `path`.
/// \throws FileError
[[nodiscard]] std::shared_ptr<const ModelFiles> open_model_files(
    const std::filesystem::path& path, std::shared_ptr<const ModelFiles> opened = nullptr);

/// Whether `model` is a model folder with a tokenizer, or a GGUF file.
[[nodiscard]] bool has_tokenizer(const std::filesystem::path& model);

}  // namespace reprise::api
