#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/base/work_limit.h"

namespace reprise::chat_template {
class ChatTemplate;
}

namespace reprise::tokenizer {
class Tokenizer;
}

namespace reprise::api {

/// How a conversation becomes a prompt; names and defaults are vLLM's.
struct ChatTemplateOptions {
  std::optional<std::string> chat_template;  // instead of the model's
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  std::optional<Json> tools;            // array of JSON schemas
  std::optional<Json> documents;        // array of objects
  /// Further variables; variables that the template does not mention are left out.
  Json kwargs = Json::object();
};

/// A conversation as a prompt.
struct ChatPrompt {
  std::string text;
  /// Places in `text` where a message spells a control token, which is plain text there. For
  /// tokenizer::EncodeOptions::plain_at.
  std::vector<size_t> plain_at;
};

/// Renders `messages`, an array of objects. The time is linear in the size of the messages, plus
/// that of the template, which has limits of its own.
///
/// A message can spell control tokens ("<|im_end|>"), but only the template may write them. Before
/// rendering, a noncharacter is put into each such spelling; afterwards it is removed again and its
/// place is remembered. Templates that search, trim or cut contents still find their own text.
/// \throws InvalidArgument from the template, for add_generation_prompt together with
/// continue_final_message, and when the rendered text does not hold the message to be continued;
/// Abandoned from `work`
[[nodiscard]] ChatPrompt render_chat(const chat_template::ChatTemplate& chat_template,
                                     const tokenizer::Tokenizer& tokenizer,
                                     const Json& messages,
                                     const ChatTemplateOptions& options,
                                     const WorkLimit& work = {});

}  // namespace reprise::api
