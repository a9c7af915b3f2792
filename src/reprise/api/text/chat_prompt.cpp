#include "reprise/api/text/chat_prompt.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/chat_template/chat_template.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::api {
namespace {

// Unicode has 32 noncharacters in a row for internal use. One that occurs in no message serves as
// the mark.
constexpr char32_t kFirstMark = 0xFDD0;
constexpr char32_t kLastMark = 0xFDEF;

bool contains(const Json& json, std::string_view text) {
  if (json.is_string()) {
    return json.get_ref<const std::string&>().find(text) != std::string::npos;
  }
  if (!json.is_structured()) return false;
  for (const Json& item : json) {
    if (contains(item, text)) return true;
  }
  return false;
}

std::string choose_mark(const Json& messages, const ChatTemplateOptions& options) {
  for (char32_t candidate = kFirstMark; candidate <= kLastMark; ++candidate) {
    std::string mark;
    append_utf8(candidate, mark);
    if (!contains(messages, mark) && !contains(options.kwargs, mark) &&
        !contains(options.tools.value_or(nullptr), mark) &&
        !contains(options.documents.value_or(nullptr), mark)) {
      return mark;
    }
  }
  throw InvalidArgument(
      "messages use all of Unicode's noncharacters U+FDD0..U+FDEF; leave one out");
}

/// `text` with `mark` inserted after the first character of each of the ascending places.
std::string with_marks(std::string_view text,
                       std::span<const size_t> places,
                       std::string_view mark) {
  std::string marked;
  marked.reserve(text.size() + places.size() * mark.size());
  size_t done = 0;
  for (const size_t place : places) {
    const size_t end = place + utf8_length(text[place]);
    marked += text.substr(done, end - done);
    marked += mark;
    done = end;
  }
  marked += text.substr(done);
  return marked;
}

void mark_control_tokens(Json& json, const tokenizer::Tokenizer& tokenizer, std::string_view mark) {
  if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    const std::vector<size_t> found = tokenizer.find_control_tokens(text);
    if (!found.empty()) text = with_marks(text, found, mark);
  } else if (json.is_structured()) {
    for (auto& [key, value] : json.items()) {
      // A role is not a user's text, and templates compare it with names: do not mark it.
      if (!json.is_object() || key != "role") mark_control_tokens(value, tokenizer, mark);
    }
  }
}

ChatPrompt take_marks_out(std::string_view marked, std::string_view mark) {
  ChatPrompt prompt;
  prompt.text.reserve(marked.size());
  for (size_t from = 0; from < marked.size();) {
    const size_t at = std::min(marked.find(mark, from), marked.size());
    prompt.text += marked.substr(from, at - from);
    if (at < marked.size() && !prompt.text.empty()) {
      prompt.plain_at.push_back(previous_boundary(prompt.text, prompt.text.size()));
    }
    from = at + mark.size();
  }
  return prompt;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r\v\f";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

/// The last text of a content; null if the content has none.
const Json* last_text_of(const Json& content) {
  if (content.is_string()) return &content;
  if (!content.is_array() || content.empty()) return nullptr;
  const auto found = content.back().find("text");
  return found != content.back().end() && found->is_string() ? &*found : nullptr;
}

/// Removes what the template wrote after the last message, like transformers. Spaces at the end of
/// the message stay only if the template kept them.
void end_inside_last_message(std::string& rendered, const Json& messages) {
  const Json* content = nullptr;
  if (!messages.empty()) {
    const auto found = messages.back().find("content");
    if (found != messages.back().end()) content = last_text_of(*found);
  }
  if (content == nullptr) {
    throw InvalidArgument("continue_final_message needs a last message whose content is text");
  }
  const std::string_view message = content->get_ref<const std::string&>();
  const std::string_view core = trim(message);
  const size_t at = rendered.rfind(core);
  if (at == std::string::npos) {
    throw InvalidArgument(
        "continue_final_message is set, but the chat template does not write the last message as "
        "it "
        "is, so its end cannot be found");
  }
  const size_t begin =
      core.empty() ? message.size() : static_cast<size_t>(core.data() - message.data());
  const std::string_view to_its_end = message.substr(begin);
  const bool keeps_spaces = rendered.compare(at, to_its_end.size(), to_its_end) == 0;
  rendered.resize(at + (keeps_spaces ? to_its_end.size() : core.size()));
}

}  // namespace

ChatPrompt render_chat(const chat_template::ChatTemplate& chat_template,
                       const tokenizer::Tokenizer& tokenizer,
                       Json messages,
                       const ChatTemplateOptions& options,
                       const WorkLimit& work) {
  if (options.continue_final_message && options.add_generation_prompt) {
    throw InvalidArgument(
        "Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
  }
  work.check();
  const std::string mark = choose_mark(messages, options);
  mark_control_tokens(messages, tokenizer, mark);
  const tokenizer::TokenizerConfig& tokens = tokenizer.config();
  chat_template::RenderOptions render{.add_generation_prompt = options.add_generation_prompt,
                                      .tools = options.tools,
                                      .documents = options.documents,
                                      .bos_token = tokens.bos_token.value_or(""),
                                      .eos_token = tokens.eos_token.value_or(""),
                                      .work = work};
  if (render.tools) mark_control_tokens(*render.tools, tokenizer, mark);
  if (render.documents) mark_control_tokens(*render.documents, tokenizer, mark);
  work.check();
  for (const auto& [name, value] : options.kwargs.items()) {
    if (chat_template.mentions(name)) render.extra[name] = value;
  }
  std::string rendered = chat_template.render(messages, render);
  if (options.continue_final_message) end_inside_last_message(rendered, messages);
  return take_marks_out(rendered, mark);
}

}  // namespace reprise::api
