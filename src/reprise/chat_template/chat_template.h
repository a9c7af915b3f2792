#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/base/work_limit.h"
#include "reprise/chat_template/limits.h"
#include "reprise/chat_template/template_error.h"

namespace reprise::chat_template {

/// The variables of a conversation, named like the arguments of transformers' apply_chat_template.
struct RenderOptions {
  bool add_generation_prompt = false;
  std::optional<Json> tools;      // array of JSON schemas; unset: `tools` is none
  std::optional<Json> documents;  // array of objects; unset: `documents` is none
  // An unset token is an undefined name in the template.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  /// More variables by name (enable_thinking, other special tokens, ...). They override the members
  /// above; "messages" is refused.
  Json extra = Json::object();
  /// The time that strftime_now() shows; if unset, the local time at the call of render().
  std::optional<std::tm> now;
  WorkLimit work;
};

/// A model's chat template: Jinja with transformers' settings (immutable sandbox, trim_blocks,
/// lstrip_blocks, loop controls, {% generation %}, raise_exception, strftime_now, tojson without
/// HTML escapes). The same template and variables give the same bytes as in transformers.
///
/// A value. It is immutable after parse(), copies share the tree, and any number of threads may
/// render at the same time. The template is treated as hostile: see Limits. A template gets JSON
/// and gives text, so it can reach no object of the program.
class ChatTemplate {
 public:
  /// \throws TemplateError with line and column
  [[nodiscard]] static ChatTemplate parse(std::string_view source, const Limits& limits = {});

  /// Renders a conversation: `messages` is an array of objects.
  /// \throws TemplateError from the template, InvalidArgument for malformed options, Abandoned from
  /// the work limit
  [[nodiscard]] std::string render(const Json& messages, const RenderOptions& options) const;

  /// Renders with `variables`, an object. The template sees these and jinja2's globals, nothing
  /// else.
  [[nodiscard]] std::string render_variables(const Json& variables,
                                             const std::optional<std::tm>& now = {},
                                             const WorkLimit& work = {}) const;

  /// True when the template uses this name ("tools", "enable_thinking", ...).
  [[nodiscard]] bool mentions(std::string_view name) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;  // shared by copies, never changed
};

}  // namespace reprise::chat_template
