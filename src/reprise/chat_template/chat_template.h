#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/chat_template/limits.h"
#include "reprise/chat_template/template_error.h"

namespace reprise::chat_template {

/// What a conversation is rendered with, named as in transformers' apply_chat_template.
struct RenderOptions {
  bool add_generation_prompt = false;
  std::optional<Json> tools;      // array of JSON schemas; `tools` is none without
  std::optional<Json> documents;  // array of objects; `documents` is none without
  // Undefined in the template without.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  /// Further variables by name (enable_thinking, other special tokens, ...). They win over
  /// everything above; "messages" is refused.
  Json extra = Json::object();
  /// What strftime_now() shows. The local time of the call without.
  std::optional<std::tm> now;
};

/// A model's chat template: Jinja as transformers runs it (immutable sandbox, trim_blocks,
/// lstrip_blocks, loop controls, {% generation %}, raise_exception, strftime_now, tojson without
/// HTML escapes). The same template and variables give the same bytes as there.
///
/// A value; immutable after parse(), copies share the tree, any number of threads may render at
/// once. The template is treated as hostile: see Limits. Only JSON goes in and only text comes out;
/// no object of the host can be reached.
class ChatTemplate {
 public:
  /// \throws TemplateError with line and column
  [[nodiscard]] static ChatTemplate parse(std::string_view source, const Limits& limits = {});

  /// Renders a conversation: `messages` is an array of objects.
  /// \throws TemplateError from the template, InvalidArgument for malformed options
  [[nodiscard]] std::string render(const Json& messages, const RenderOptions& options) const;

  /// Renders with `variables`, an object, and nothing else defined but jinja2's globals.
  [[nodiscard]] std::string render_variables(const Json& variables,
                                             const std::optional<std::tm>& now = {}) const;

  /// Does the template mention this name (a variable: "tools", "enable_thinking", ...)?
  [[nodiscard]] bool mentions(std::string_view name) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;  // shared by copies, never changed
};

}  // namespace reprise::chat_template
