#pragma once

#include <string_view>

#include "reprise/base/work_limit.h"

namespace reprise::chat_template {
class ChatTemplate;
}
namespace reprise::output_parsers {
struct TemplateSamples;
}
namespace reprise::tokenizer {
struct TokenizerConfig;
}

namespace reprise::api {

/// The forms of content that a template shows for the messages of one role.
struct ContentForm {
  bool takes_text = true;
  bool takes_parts = false;     // a list of {"type": "text", "text": ...}
  bool takes_one_part = false;  // takes a list of parts, but shows only its first part
};

/// The forms of messages that a template takes. Templates differ, and no field of a template says
/// what it takes, so small conversations are rendered to find out.
struct TemplateForm {
  ContentForm system;
  ContentForm user;
  ContentForm assistant;
  ContentForm tool;
  bool takes_system = true;           // a message of the system in front
  bool takes_late_system = true;      // one after the first question
  bool takes_thinking_parts = false;  // {"type": "thinking", "thinking": ...} of an assistant
  bool takes_reasoning = false;       // a member of an assistant's message
  // Whether the template takes the arguments of tool calls as an object, and as JSON text.
  bool takes_object_arguments = true;
  bool takes_text_arguments = false;

  [[nodiscard]] const ContentForm& content_of(std::string_view role) const noexcept;
};

/// Renders about twenty short conversations. When one of them reaches a limit of the template, the
/// rest are not rendered. \throws Abandoned from `work`
[[nodiscard]] TemplateForm find_template_form(const chat_template::ChatTemplate& chat_template,
                                              const tokenizer::TokenizerConfig& tokens,
                                              const WorkLimit& work = {});

/// The texts that the template writes for the sample conversation of choose_parsers().
[[nodiscard]] output_parsers::TemplateSamples sample_template(
    std::string_view source,
    const chat_template::ChatTemplate& chat_template,
    const TemplateForm& form,
    const tokenizer::TokenizerConfig& tokens);

}  // namespace reprise::api
