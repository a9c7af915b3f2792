#include "reprise/api/tokenizer_source.h"

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "reprise/tokenizer/vocabulary_files/tokenizer_folder.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/model_directory.h"

namespace reprise::api {
namespace {

constexpr std::string_view kTemplatesFolder = "additional_chat_templates";

/// Refuses files of the tokenizer that are links out of the folder, as ModelDirectory does for
/// weights: a folder from a stranger must not make the server read and show other files.
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

tokenizer::Tokenizer load_tokenizer(const std::filesystem::path& model) {
  if (weights::gguf::is_gguf_path(model)) {
    const auto file = weights::gguf::GgufModel::open(model);
    return tokenizer::Tokenizer::from_json(
        file->tokenizer_json(),
        file->path(),
        tokenizer::TokenizerConfig::from_json(file->tokenizer_config_json(), file->path()));
  }
  const weights::ModelDirectory directory(model);
  check_tokenizer_files(directory);
  return tokenizer::load_tokenizer_folder(directory.path());
}

bool has_tokenizer(const std::filesystem::path& model) {
  std::error_code error;
  if (weights::gguf::is_gguf_path(model)) return std::filesystem::is_regular_file(model, error);
  return !tokenizer::vocabulary_files(model).empty();
}

}  // namespace reprise::api
