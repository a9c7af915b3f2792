#pragma once

#include "reprise/base/json.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {

inline constexpr int kMaxMessages = 4096;

/// The conversation in "messages" in the form that chat templates take: contents as text, without
/// null members. \throws ApiError 400 naming the message at fault, as in "messages[0].role"
[[nodiscard]] Json read_messages(const RequestFields& fields);

}  // namespace reprise::server
