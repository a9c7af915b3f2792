#pragma once

#include <string>

#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::server {

/// What fields of requests mean where they are absent, and what requests may say: fixed when a
/// server starts. Flags of vLLM by their names.
struct RequestPolicy {
  sampling::SamplingParams params;                     // of completions and chats
  Json default_chat_template_kwargs = Json::object();  // those of a request win, name by name
  bool trust_request_chat_template = false;            // requests may bring a template
  bool exclude_tools_when_tool_choice_none = false;    // from the prompt
  bool enable_force_include_usage = false;             // streams end with usage, asked or not
  bool return_tokens_as_token_ids = false;  // in log-probabilities, where requests do not say
  std::string response_role = "assistant";  // of answers to chats
};

}  // namespace reprise::server
