#include "reprise/api/system_messages.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

bool has_role(const Json& message, std::string_view role) {
  if (!message.is_object()) return false;
  const auto found = message.find("role");
  return found != message.end() && *found == role;
}

/// The texts of a message, which are all that it has.
std::string text_of(const Json& message, size_t index) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  const auto refuse = [index] {
    throw InvalidArgument(fmt::format(
        "messages[{}].content: expected a string or an array of parts of type text", index));
  };
  if (!content->is_array()) refuse();
  for (const Json& part : *content) {
    const bool is_object = part.is_object() && part.contains("text");
    const Json& piece = is_object ? part["text"] : part;
    if (!piece.is_string()) refuse();
    if (!text.empty()) text += '\n';
    text += piece.get_ref<const std::string&>();
  }
  return text;
}

constexpr std::string_view kBetween = "\n\n";

/// Adds text to the end of a message: to its last part, since some templates write parts without
/// anything between them.
void append(Json& message, const std::string& text) {
  Json& content = message["content"];
  if (content.is_array() && !content.empty()) {
    Json& last = content.back();
    Json* piece = last.is_object() && last.contains("text") ? &last["text"] : &last;
    if (piece->is_string()) {
      piece->get_ref<std::string&>() += std::string(kBetween) + text;
    } else {
      content.push_back({{"type", "text"}, {"text", text}});
    }
  } else if (content.is_string() && content != "") {
    content.get_ref<std::string&>() += std::string(kBetween) + text;
  } else if (content.is_null() || content.is_array() || content == "") {
    content = text;
  }
}

/// Adds text to the beginning of a message.
void prepend(Json& message, const std::string& text) {
  Json& content = message["content"];
  if (content.is_string()) {
    content = text + std::string(kBetween) + content.get_ref<const std::string&>();
  } else if (content.is_array() && !content.empty()) {
    content.insert(content.begin(), Json{{"type", "text"}, {"text", text + std::string(kBetween)}});
  } else if (content.is_null() || content.is_array()) {
    content = text;
  }
}

/// Builds the conversation message by message.
class Conversation {
 public:
  explicit Conversation(const TemplateForm& form) : form_(&form) {}

  void add(Json message, size_t index) {
    const bool is_user = has_role(message, "user");
    const bool is_first = messages_.empty() && waiting_.empty();
    const bool is_shown = is_first ? form_->takes_system : form_->takes_late_system;
    // Most templates that refuse such a message want the roles to alternate.
    if ((has_role(message, "system") && !is_shown) || (is_user && grew_)) {
      move(text_of(message, index));
      return;
    }
    if (is_user && !waiting_.empty()) prepend(message, std::exchange(waiting_, {}));
    put_waiting();
    grew_ = false;
    messages_.push_back(std::move(message));
  }

  [[nodiscard]] Json take() {
    put_waiting();
    return std::move(messages_);
  }

 private:
  void move(const std::string& text) {
    if (text.empty()) return;
    const bool is_after_user = !messages_.empty() && has_role(messages_.back(), "user");
    if (is_after_user || (!messages_.empty() && has_role(messages_.back(), "system"))) {
      append(messages_.back(), text);
      grew_ = is_after_user;
    } else {
      if (!waiting_.empty()) waiting_ += kBetween;
      waiting_ += text;
    }
  }

  void put_waiting() {
    if (waiting_.empty()) return;
    messages_.push_back({{"role", "user"}, {"content", std::exchange(waiting_, {})}});
  }

  const TemplateForm* form_;
  Json messages_ = Json::array();
  std::string waiting_;  // for the user's next message
  bool grew_ = false;    // the last message is the user's, and a system's was added to it
};

}  // namespace

Json with_shown_system_messages(Json messages, const TemplateForm& form) {
  if (form.takes_system && form.takes_late_system) return messages;
  Conversation conversation(form);
  for (size_t i = 0; i < messages.size(); ++i) conversation.add(std::move(messages[i]), i);
  return conversation.take();
}

}  // namespace reprise::api
