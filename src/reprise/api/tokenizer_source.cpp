#include "reprise/api/tokenizer_source.h"

#include <system_error>

#include "reprise/base/error.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/model_directory.h"

namespace reprise::api {

tokenizer::Tokenizer load_tokenizer(const std::filesystem::path& model) {
  if (weights::gguf::is_gguf_path(model)) {
    const auto file = weights::gguf::GgufModel::open(model);
    return tokenizer::Tokenizer::from_json(
        file->tokenizer_json(),
        file->path(),
        tokenizer::TokenizerConfig::from_json(file->tokenizer_config_json(), file->path()));
  }
  const weights::ModelDirectory directory(model);
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
