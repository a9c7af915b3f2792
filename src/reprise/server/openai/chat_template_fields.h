#pragma once

#include "reprise/api/text/chat_prompt.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/tool_fields.h"

namespace reprise::server {

/// The fields from which the prompt of a chat is made: conversation, tools, and how the template
/// renders them.
struct ChatFields {
  Json messages;
  ToolUse tools;
  api::ChatTemplateOptions chat_template;
};
/// Every route that renders chats reads them with this function, so that all routes see the same
/// prompt. A template from the client is refused unless `policy` trusts it. Variables that would
/// change more than the rendered text are always refused. \throws ApiError 400 with the field at
/// fault
[[nodiscard]] ChatFields read_chat_fields(const RequestFields& fields, const RequestPolicy& policy);

/// Route::max_inline_bytes of routes that read these fields: rendering a client's own template may
/// take long, even if the template is small.
[[nodiscard]] inline size_t max_inline_chat_bytes(const RequestPolicy& policy) {
  return policy.trust_request_chat_template ? 0 : Route{}.max_inline_bytes;
}

}  // namespace reprise::server
