#include "reprise/api/system_messages.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

bool has_role(const Json& message, std::string_view role) {
  if (!message.is_object()) return false;
  const auto found = message.find("role");
  return found != message.end() && *found == role;
}

/// The content of a message as a list of parts.
Json parts_of(Json& message, size_t index) {
  Json content = message.value("content", Json());
  if (content.is_null()) return Json::array();
  if (content.is_string()) return Json::array({{{"type", "text"}, {"text", std::move(content)}}});
  if (content.is_array()) return content;
  throw InvalidArgument(
      fmt::format("messages[{}].content: expected a string or an array of parts", index));
}

/// Builds the conversation message by message.
class Conversation {
 public:
  explicit Conversation(const TemplateForm& form) : form_(&form) {}

  void add(Json message, size_t index) {
    const bool is_system = has_role(message, "system");
    const bool is_shown =
        messages_.empty() && waiting_.empty() ? form_->takes_system : form_->takes_late_system;
    if (is_system && !is_shown) {
      move(parts_of(message, index), index);
    } else if (has_role(message, "user") && grew_) {
      move(parts_of(message, index), index);  // most such templates want the roles to alternate
    } else {
      if (has_role(message, "user")) {
        put_waiting_before(message, index);
      } else {
        put_waiting();
      }
      grew_ = false;
      messages_.push_back(std::move(message));
    }
  }

  [[nodiscard]] Json take() {
    put_waiting();
    return std::move(messages_);
  }

 private:
  void move(Json parts, size_t index) {
    Json* last = messages_.empty() ? nullptr : &messages_.back();
    if (last == nullptr || (!has_role(*last, "user") && !has_role(*last, "system"))) {
      append(waiting_, std::move(parts));
      return;
    }
    Json all = parts_of(*last, index);
    append(all, std::move(parts));
    (*last)["content"] = std::move(all);
    grew_ = has_role(*last, "user");
  }

  static void append(Json& parts, Json more) {
    for (Json& part : more) parts.push_back(std::move(part));
  }

  void put_waiting_before(Json& message, size_t index) {
    if (waiting_.empty()) return;
    Json all = std::exchange(waiting_, Json::array());
    append(all, parts_of(message, index));
    message["content"] = std::move(all);
  }

  void put_waiting() {
    if (waiting_.empty()) return;
    messages_.push_back({{"role", "user"}, {"content", std::exchange(waiting_, Json::array())}});
  }

  const TemplateForm* form_;
  Json messages_ = Json::array();
  Json waiting_ = Json::array();  // parts for the next message of the user
  bool grew_ = false;             // the last message is the user's, and a system's was added to it
};

}  // namespace

Json with_shown_system_messages(Json messages, const TemplateForm& form) {
  if (form.takes_system && form.takes_late_system) return messages;
  Conversation conversation(form);
  for (size_t i = 0; i < messages.size(); ++i) conversation.add(std::move(messages[i]), i);
  return conversation.take();
}

}  // namespace reprise::api
