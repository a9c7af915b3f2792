#pragma once

#include "reprise/api/chat_prompt.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/request_policy.h"

namespace reprise::server {

/// Reads the fields of a chat request that control how it is rendered. A template from the client
/// is refused unless `policy` trusts it. Variables that would change more than the rendered text
/// are always refused. \throws ApiError 400 with the field at fault
[[nodiscard]] api::ChatTemplateOptions read_chat_template_options(const RequestFields& fields,
                                                                  const RequestPolicy& policy);

/// Route::max_inline_bytes of routes that read these fields: a template that a client brings may
/// take long although it is small.
[[nodiscard]] inline size_t max_inline_chat_bytes(const RequestPolicy& policy) {
  return policy.trust_request_chat_template ? 0 : Route{}.max_inline_bytes;
}

}  // namespace reprise::server
