#pragma once

#include "reprise/api/template_form.h"
#include "reprise/base/json.h"

namespace reprise::api {

/// Messages of the role system that the template would drop or refuse, as text of their neighbours.
/// Agents send them after the first question too, and some templates know no such role at all.
/// A message goes to the end of the message before it, if that is of the system or of the user, or
/// else to the beginning of the user's next one. A template that shows such messages in some
/// places only gets none of them, so that a message stays the same text while the conversation
/// grows. Templates that show all get `messages` as they are. \throws InvalidArgument if a message
/// that moves has no text
[[nodiscard]] Json with_shown_system_messages(Json messages, const TemplateForm& form);

}  // namespace reprise::api
