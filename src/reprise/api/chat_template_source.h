#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reprise/chat_template/chat_template.h"
#include "reprise/tokenizer/tokenizer_config.h"

namespace reprise::api {

/// The template that conversations are rendered with, and its text.
struct SourcedChatTemplate {
  std::string source;
  chat_template::ChatTemplate parsed;
};

/// `given`, a file or the template itself (as vLLM: told apart by braces and line breaks), else the
/// one that the tokenizer in `folder` brings; nullopt when there is neither.
/// \throws InvalidArgument for what was given, FileError E_TEMPLATE for the tokenizer's
[[nodiscard]] std::optional<SourcedChatTemplate> load_chat_template(
    const std::optional<std::string>& given,
    const tokenizer::TokenizerConfig& config,
    const std::filesystem::path& folder);

}  // namespace reprise::api
