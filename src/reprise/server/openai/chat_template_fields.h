#pragma once

#include "reprise/api/chat_prompt.h"
#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/request_policy.h"

namespace reprise::server {

/// The fields of a chat that say how it is rendered. A template of the client's own is refused
/// unless `policy` trusts it; variables that would change more than what the template says always.
/// \throws ApiError 400 with the field at fault
[[nodiscard]] api::ChatTemplateOptions read_chat_template_options(const RequestFields& fields,
                                                                  const RequestPolicy& policy);

}  // namespace reprise::server
