#pragma once

#include <cstdint>
#include <string>

#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::server {

/// The values of request fields that are absent, and the limits on what requests may set. Fixed
/// when the server starts. Members with the name of a vLLM flag mean the same as the flag.
struct RequestPolicy {
  sampling::SamplingParams params;  // for completions and chats
  // a request's values override these, name by name
  Json default_chat_template_kwargs = Json::object();
  bool trust_request_chat_template = false;          // requests may bring a template
  bool exclude_tools_when_tool_choice_none = false;  // leaves them out of the prompt
  bool enable_force_include_usage = false;           // streams always end with usage
  bool disable_any_whitespace = false;               // JSON answers are compact
  int32_t stream_interval = 1;                       // tokens per chunk; a request can override it
  bool return_tokens_as_token_ids = false;  // in log-probabilities; a request can override it
  std::string response_role = "assistant";  // the role of chat answers
};

}  // namespace reprise::server
