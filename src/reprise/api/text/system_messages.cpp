#include "reprise/api/text/system_messages.h"

#include <string>
#include <string_view>
#include <utility>

namespace reprise::api {
namespace {

constexpr std::string_view kBetween = "\n\n";

bool has_role(const Json& message, std::string_view role) { return message["role"] == role; }

std::string text_of(const Json& message) {
  const Json& content = message["content"];
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (!text.empty()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

/// The text of a message, or of its first or last part: some templates write parts without anything
/// between them, and some only the first one.
std::string& first_text(Json& message) {
  Json& content = message["content"];
  return (content.is_string() ? content : content.front()["text"]).get_ref<std::string&>();
}
std::string& last_text(Json& message) {
  Json& content = message["content"];
  return (content.is_string() ? content : content.back()["text"]).get_ref<std::string&>();
}

void add_line(std::string& text, std::string_view more) {
  if (!text.empty()) text += kBetween;
  text += more;
}

/// Builds the conversation message by message.
class Conversation {
 public:
  explicit Conversation(const TemplateForm& form) : form_(&form) {}

  void add(Json message) {
    const bool is_user = has_role(message, "user");
    const bool is_first = messages_.empty() && waiting_.empty();
    const bool is_shown = is_first ? form_->takes_system : form_->takes_late_system;
    // A template that refuses such a message usually requires that roles alternate.
    if ((has_role(message, "system") && !is_shown) || (is_user && grew_)) {
      return move(text_of(message));
    }
    if (is_user && !waiting_.empty() && !message["content"].empty()) {
      std::string& text = first_text(message);
      text = std::exchange(waiting_, {}) + std::string(kBetween) + text;
    }
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
    Json* last =
        messages_.empty() || messages_.back()["content"].empty() ? nullptr : &messages_.back();
    const bool is_after_user = last != nullptr && has_role(*last, "user");
    if (is_after_user || (last != nullptr && has_role(*last, "system"))) {
      add_line(last_text(*last), text);
      grew_ = is_after_user;
    } else {
      add_line(waiting_, text);
    }
  }

  void put_waiting() {
    if (waiting_.empty()) return;
    Json text = std::exchange(waiting_, {});
    if (!form_->user.takes_text) text = Json::array({{{"type", "text"}, {"text", text}}});
    messages_.push_back({{"role", "user"}, {"content", std::move(text)}});
  }

  const TemplateForm* form_;
  Json messages_ = Json::array();
  std::string waiting_;  // for the user's next message
  // The last message is the user's, and the text of a system message was added to it.
  bool grew_ = false;
};

}  // namespace

Json with_shown_system_messages(Json messages, const TemplateForm& form) {
  if (form.takes_system && form.takes_late_system) return messages;
  Conversation conversation(form);
  for (Json& message : messages) conversation.add(std::move(message));
  return conversation.take();
}

}  // namespace reprise::api
