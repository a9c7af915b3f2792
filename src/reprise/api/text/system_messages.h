#pragma once

#include "reprise/api/text/template_form.h"
#include "reprise/base/json.h"

namespace reprise::api {

/// Agents send messages of the role system after the first question too. Some templates drop or
/// refuse those, and some know no such role at all; there they become text of a neighbour: of the
/// message before, if that is the system's or the user's, or else of the user's next one. A
/// template that shows late ones only at some places gets none, so that the beginning of a prompt
/// stays the same while the conversation grows. Other templates get `messages` as they are.
/// \pre contents have the form of the template (messages_for_template())
[[nodiscard]] Json with_shown_system_messages(Json messages, const TemplateForm& form);

}  // namespace reprise::api
