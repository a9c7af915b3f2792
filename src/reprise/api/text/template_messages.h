#pragma once

#include "reprise/api/text/chat_prompt.h"
#include "reprise/api/text/template_form.h"
#include "reprise/base/json.h"

namespace reprise::api {

/// A conversation of the OpenAI API in the form that the template takes:
/// - contents as text, or as a list of parts. Several parts become lines of one text.
/// - `reasoning`, `reasoning_content` or `thinking` of a message under the names that templates
///   read. Parts of type thinking and reasoning in an answer are its reasoning; only where the
///   template takes no reasoning, they are text (as in vLLM).
/// - the arguments of tool calls as objects, or as JSON text.
/// - messages of the system that the template does not show, as text of others
///   (system_messages.h).
/// Members that are not named here stay as they are.
/// \throws InvalidArgument naming the place of a part or a call of another shape
[[nodiscard]] Json messages_for_template(Json messages,
                                         const TemplateForm& form,
                                         ContentFormat format = ContentFormat::automatic);

}  // namespace reprise::api
