#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/chat_template/chat_template.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::api {

/// How a conversation becomes a prompt; names and defaults are vLLM's.
struct ChatTemplateOptions {
  std::optional<std::string> chat_template;  // instead of the model's
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  std::optional<Json> tools;            // array of JSON schemas
  std::optional<Json> documents;        // array of objects
  /// Further variables; those that the template does not mention are left out.
  Json kwargs = Json::object();
};

/// A conversation as the model reads it.
struct ChatPrompt {
  std::string text;
  /// Where in `text` a message spells a control token: that is text, not an instruction. For
  /// tokenizer::EncodeOptions::plain_at.
  std::vector<size_t> plain_at;
};

/// Renders `messages`, an array of objects.
///
/// What people write in messages can spell control tokens ("<|im_end|>"), and only the template may
/// write these. Before rendering, a noncharacter is put into each such spelling; afterwards it is
/// taken out again and its place remembered. Templates that search, trim or cut contents still find
/// what they look for.
/// \throws InvalidArgument from the template, for both kinds of endings at once, and when the
/// rendered text does not hold the message that is to be continued
[[nodiscard]] ChatPrompt render_chat(const chat_template::ChatTemplate& chat_template,
                                     const tokenizer::Tokenizer& tokenizer,
                                     const Json& messages,
                                     const ChatTemplateOptions& options);

}  // namespace reprise::api
