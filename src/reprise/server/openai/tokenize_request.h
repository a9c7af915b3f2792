#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/text/chat_prompt.h"
#include "reprise/base/json.h"
#include "reprise/server/openai/request_policy.h"

namespace reprise::server {

/// The body of POST /tokenize, checked.
struct TokenizeRequest {
  std::optional<std::string> model;
  std::optional<std::string> prompt;  // else messages
  Json messages = Json::array();
  api::ChatTemplateOptions chat_template;
  bool add_special_tokens = true;
  bool return_token_strs = false;
  std::vector<std::string> unused_fields;  // RequestFields::unused()
};
/// The body of POST /detokenize, checked.
struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<int32_t> tokens;
  std::vector<std::string> unused_fields;
};

/// All functions: \throws ApiError 400 with the field at fault
[[nodiscard]] TokenizeRequest parse_tokenize_request(std::string_view body,
                                                     const RequestPolicy& policy = {});
/// The same for a body that is already parsed.
[[nodiscard]] TokenizeRequest read_tokenize_request(const Json& body, const RequestPolicy& policy);
[[nodiscard]] DetokenizeRequest parse_detokenize_request(std::string_view body);

}  // namespace reprise::server
