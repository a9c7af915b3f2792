#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reprise/api/text/template_form.h"
#include "reprise/chat_template/chat_template.h"
#include "reprise/tokenizer/tokenizer_config.h"

namespace reprise::api {

/// The template that renders conversations, its source text, and the forms of messages it takes.
struct SourcedChatTemplate {
  std::string source;
  chat_template::ChatTemplate parsed;
  TemplateForm form;
};

/// The template in `given`, which is a file or the template itself (as in vLLM, braces or line
/// breaks mark a template). Without `given`, the template of the tokenizer in `folder`; nullopt
/// when it has none.
/// \throws InvalidArgument for an error in `given`, FileError E_TEMPLATE for one in the tokenizer's
/// template
[[nodiscard]] std::optional<SourcedChatTemplate> load_chat_template(
    const std::optional<std::string>& given,
    const tokenizer::TokenizerConfig& config,
    const std::filesystem::path& folder);

}  // namespace reprise::api
