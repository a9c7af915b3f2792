#pragma once

#include "reprise/api/chat_prompt.h"
#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/request_policy.h"

namespace reprise::server {

/// Reads the fields of a chat request that control how it is rendered. A template from the client
/// is refused unless `policy` trusts it. Variables that would change more than the rendered text
/// are always refused. \throws ApiError 400 with the field at fault
[[nodiscard]] api::ChatTemplateOptions read_chat_template_options(const RequestFields& fields,
                                                                  const RequestPolicy& policy);

}  // namespace reprise::server
