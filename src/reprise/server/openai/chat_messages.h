#pragma once

#include "reprise/base/json.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {

inline constexpr int kMaxMessages = 4096;

/// The conversation in "messages", checked and without null members: contents as text or lists of
/// parts, reasoning as `reasoning`. The engine converts it to the form that its chat template takes
/// (api::messages_for_template). \throws ApiError 400 naming the message at fault, as in
/// "messages[0].role"
[[nodiscard]] Json read_messages(const RequestFields& fields);

}  // namespace reprise::server
