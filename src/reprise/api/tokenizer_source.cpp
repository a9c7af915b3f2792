#include "reprise/api/tokenizer_source.h"

#include <system_error>

#include "reprise/base/error.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/model_directory.h"

namespace reprise::api {
namespace {

/// Refuses files of the tokenizer that are links out of the folder, as ModelDirectory does for
/// weights: a folder from a stranger must not make the server read and show other files.
void check_tokenizer_files(const weights::ModelDirectory& directory) {
  for (const char* name : {"tokenizer.json",
                           "tokenizer_config.json",
                           "special_tokens_map.json",
                           "chat_template.jinja",
                           "chat_template.json"}) {
    if (directory.contains(name)) (void)directory.open(name);
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
  if (!directory.contains("tokenizer.json")) {
    throw FileError("E_TOKENIZER",
                    directory.path_of("tokenizer.json"),
                    "",
                    "no such file; --tokenizer DIR uses the tokenizer of another folder");
  }
  return tokenizer::Tokenizer::load(directory.path());
}

bool has_tokenizer(const std::filesystem::path& model) {
  std::error_code error;
  return std::filesystem::is_regular_file(
      weights::gguf::is_gguf_path(model) ? model : model / "tokenizer.json", error);
}

}  // namespace reprise::api
