#pragma once

#include "reprise/api/chat_prompt.h"
#include "reprise/server/request_fields.h"

namespace reprise::server {

/// The fields of a chat that say how it is rendered. A template of the client's own is refused, and
/// so are variables that would change more than what the template says.
/// \throws ApiError 400 with the field at fault
[[nodiscard]] api::ChatTemplateOptions read_chat_template_options(const RequestFields& fields);

}  // namespace reprise::server
