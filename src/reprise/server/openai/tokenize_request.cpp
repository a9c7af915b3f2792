#include "reprise/server/openai/tokenize_request.h"

#include <limits>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/chat_template_fields.h"
#include "reprise/server/openai/generation_request.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {

TokenizeRequest parse_tokenize_request(std::string_view body, const RequestPolicy& policy) {
  return read_tokenize_request(parse_body(body), policy);
}

TokenizeRequest read_tokenize_request(const Json& body, const RequestPolicy& policy) {
  const RequestFields fields(body);
  TokenizeRequest request{.model = read_model_name(fields), .prompt = fields.text("prompt")};
  if (!request.prompt) {
    if (fields.find("messages") == nullptr) {
      throw ApiError(400, "Field required: prompt, or messages.", "prompt");
    }
    ChatFields chat = read_chat_fields(fields, policy);
    request.messages = std::move(chat.messages);
    request.chat_template = std::move(chat.chat_template);
  }
  request.add_special_tokens =
      fields.boolean("add_special_tokens").value_or(request.prompt.has_value());
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  request.unused_fields = fields.unused();
  return request;
}

DetokenizeRequest parse_detokenize_request(std::string_view body) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  if (fields.find("tokens") == nullptr) throw ApiError(400, "Field required: tokens.", "tokens");
  DetokenizeRequest request{
      .model = read_model_name(fields),
      .tokens = fields.token_ids("tokens", std::numeric_limits<size_t>::max())};
  request.unused_fields = fields.unused();
  return request;
}

}  // namespace reprise::server
