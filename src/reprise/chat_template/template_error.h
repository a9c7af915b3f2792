#pragma once

#include <string>
#include <string_view>

#include "reprise/base/error.h"

namespace reprise::chat_template {

/// A place in a template's source, counted from 1; {0, 0} means that there is no place.
struct Position {
  int line = 0;
  int column = 0;  // in bytes

  bool operator==(const Position&) const = default;
};

/// The template is malformed, asked for something impossible, called raise_exception() or reached a
/// limit. The cause is the request or the model folder, not the engine.
class TemplateError : public InvalidArgument {
 public:
  enum class Cause {
    syntax,   // found while parsing
    runtime,  // found while rendering
    raised,   // the template itself called raise_exception(message)
    limit,    // a limit in Limits was reached
  };

  TemplateError(Cause cause, Position at, std::string_view message)
      : InvalidArgument(compose(cause, at, message)), cause_(cause), at_(at), message_(message) {}

  [[nodiscard]] Cause cause() const noexcept { return cause_; }
  [[nodiscard]] bool is_limit() const noexcept { return cause_ == Cause::limit; }
  [[nodiscard]] int line() const noexcept { return at_.line; }
  [[nodiscard]] int column() const noexcept { return at_.column; }
  /// The message without place and code, for example the argument of raise_exception().
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  /// Stable code for scripts: "template_limit" or "template_error".
  [[nodiscard]] std::string_view code() const noexcept {
    return is_limit() ? "template_limit" : "template_error";
  }

 private:
  static std::string compose(Cause cause, Position at, std::string_view message) {
    std::string text = "chat template";
    if (at.line > 0) {
      text += ", line " + std::to_string(at.line) + ", column " + std::to_string(at.column);
    }
    text.append(": ").append(message);
    text.append(cause == Cause::limit ? " [template_limit]" : " [template_error]");
    return text;
  }

  Cause cause_;
  Position at_;
  std::string message_;
};

}  // namespace reprise::chat_template
