#pragma once

#include <filesystem>

#include "reprise/tokenizer/tokenizer.h"

namespace reprise::api {

/// The tokenizer of a model folder or of a GGUF file. \throws FileError
[[nodiscard]] tokenizer::Tokenizer load_tokenizer(const std::filesystem::path& model);

/// Whether `model` is a model folder with a tokenizer, or a GGUF file.
[[nodiscard]] bool has_tokenizer(const std::filesystem::path& model);

}  // namespace reprise::api
