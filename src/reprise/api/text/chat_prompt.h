#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

/// The form in which a template gets the content of messages; vLLM's
/// --chat-template-content-format.
enum class ContentFormat : uint8_t {
  automatic,  // text stays text and a list of parts a list, where the template takes them
  string,     // always text
  openai,     // always a list of parts
};

/// Reads "auto", "string" or "openai". `option`: the name of the value in messages. \throws
/// InvalidArgument
[[nodiscard]] ContentFormat parse_content_format(std::string_view option, std::string_view text);

/// Options for turning a conversation into a prompt; names and defaults are vLLM's.
struct ChatTemplateOptions {
  std::optional<std::string> chat_template;  // used instead of the model's template
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  std::optional<Json> tools;            // array of JSON schemas
  std::optional<Json> documents;        // array of objects
  /// In which form the template gets contents; nullopt: the engine's
  /// (EngineArgs::chat_template_content_format).
  std::optional<ContentFormat> content_format;
  /// More variables for the template; variables that it does not mention are dropped.
  Json kwargs = Json::object();
};

/// A conversation rendered as a prompt.
struct ChatPrompt {
  std::string text;
  /// Byte offsets in `text` at which a message spells a control token: it is plain text there.
  /// Passed to the tokenizer as tokenizer::EncodeOptions::plain_at.
  std::vector<size_t> plain_at;
};

/// Renders `messages`, an array of objects in the form that the template takes
/// (template_messages.h). The time is linear in the size of the messages, plus
/// the time of the template, which is limited separately (chat_template::Limits).
///
/// A message can spell control tokens ("<|im_end|>"), but only the template may write them. Before
/// rendering, a noncharacter is inserted into each such spelling in a message; after rendering, it
/// is removed and its place is recorded. Templates that search, trim or cut contents still work.
/// \throws InvalidArgument from the template, for add_generation_prompt together with
/// continue_final_message, and when the rendered text does not hold the message to be continued;
/// Abandoned from `work`
[[nodiscard]] ChatPrompt render_chat(const chat_template::ChatTemplate& chat_template,
                                     const tokenizer::Tokenizer& tokenizer,
                                     Json messages,
                                     const ChatTemplateOptions& options,
                                     const WorkLimit& work = {});

}  // namespace reprise::api
