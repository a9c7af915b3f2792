#include "reprise/api/options/model_files.h"

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "reprise/tokenizer/vocabulary_files/tokenizer_folder.h"
#include "reprise/weights/config/pooling_config.h"
#include "reprise/weights/files/model_directory.h"

namespace reprise::api {
namespace {

constexpr std::string_view kTemplatesFolder = "additional_chat_templates";

/// Refuses files of the tokenizer that are links out of the folder, as ModelDirectory does for
/// weights: a folder that somebody else made must not make the server read and show other files.
void check_tokenizer_files(const weights::ModelDirectory& directory) {
  std::vector<std::string> names = tokenizer::vocabulary_files(directory.path());
  for (const char* name : {"tokenizer_config.json",
                           "special_tokens_map.json",
                           "added_tokens.json",
                           "chat_template.jinja",
                           "chat_template.json"}) {
    names.emplace_back(name);
  }
  for (const std::string& name : names) {
    if (directory.contains(name)) (void)directory.open(name);
  }
  if (!directory.contains(kTemplatesFolder)) return;
  const weights::ModelDirectory templates = directory.folder(kTemplatesFolder);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(templates.path(), error)) {
    (void)templates.open(entry.path().filename().string());
  }
}

}  // namespace

ModelFiles::ModelFiles(std::filesystem::path path)
    : path_(std::move(path)),
      gguf_(weights::gguf::is_gguf_path(path_) ? weights::gguf::GgufModel::open(path_) : nullptr) {}

weights::LoadedModelConfig ModelFiles::config(const Json& overrides) const {
  if (gguf_ != nullptr) return gguf_->config(overrides);
  return weights::load_model_config(weights::ModelDirectory(path_), overrides);
}

std::optional<weights::PoolingConfig> ModelFiles::pooling_config(
    std::vector<std::string>& warnings) const {
  if (gguf_ != nullptr) return gguf_->pooling_config();
  return weights::load_pooling_config(weights::ModelDirectory(path_), warnings);
}

weights::GenerationConfig ModelFiles::generation_config(const Json& overrides) const {
  if (gguf_ != nullptr) return gguf_->generation_config(overrides);
  return weights::load_generation_config(weights::ModelDirectory(path_), overrides);
}

tokenizer::Tokenizer ModelFiles::tokenizer() const {
  if (gguf_ != nullptr) {
    return tokenizer::Tokenizer::from_json(
        gguf_->tokenizer_json(),
        gguf_->path(),
        tokenizer::TokenizerConfig::from_json(gguf_->tokenizer_config_json(), gguf_->path()));
  }
  const weights::ModelDirectory directory(path_);
  check_tokenizer_files(directory);
  return tokenizer::load_tokenizer_folder(directory.path());
}

std::shared_ptr<const ModelFiles> open_model_files(const std::filesystem::path& path,
                                                   std::shared_ptr<const ModelFiles> opened) {
  if (opened != nullptr && opened->path() == path) return opened;
  return std::make_shared<const ModelFiles>(path);
}

bool has_tokenizer(const std::filesystem::path& model) {
  std::error_code error;
  if (weights::gguf::is_gguf_path(model)) return std::filesystem::is_regular_file(model, error);
  return !tokenizer::vocabulary_files(model).empty();
}

}  // namespace reprise::api
