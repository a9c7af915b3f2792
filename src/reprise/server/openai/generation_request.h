#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/server/http/trace_parent.h"
#include "reprise/server/openai/answer_reader.h"
#include "reprise/server/openai/kv_transfer_fields.h"
#include "reprise/server/openai/pooling_parameters.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/structured_fields.h"
#include "reprise/server/openai/tool_fields.h"

namespace reprise::server {

/// The limits of one request.
inline constexpr int kMaxChoices = 256;  // prompts times n
inline constexpr int kMaxN = 128;        // OpenAI's bound

/// How prompts that are too long are treated.
struct Truncation {
  /// The number of tokens to keep; -1: as many as fit the context; unset: a prompt that does not
  /// fit is refused.
  std::optional<int64_t> num_tokens;
  bool keeps_end = true;  // else keeps the beginning

  friend bool operator==(const Truncation&, const Truncation&) = default;
};

class RequestFields;

/// Text, or token ids that are used unchanged.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

/// The body of POST /v1/completions or /v1/chat/completions, or of a route for vectors, checked.
struct GenerationRequest {
  bool is_chat = false;
  std::optional<std::string> model;
  std::vector<Prompt> prompts;    // completions
  Json messages = Json::array();  // chat: as read_messages() gives them
  api::ChatTemplateOptions chat_template;
  sampling::SamplingParams params;
  scheduler::RequestOptions options;
  std::optional<PoolingParameters> pooling;  // set by the routes for vectors
  std::optional<AskedOutput> asked_output;
  ToolUse tools;
  bool include_reasoning = true;
  bool may_reason = false;  // a parser reads reasoning; set by TextGeneration
  /// Makes the constraint of one answer; null: any text is allowed. Set after asked_output was
  /// compiled.
  std::function<std::unique_ptr<structured_output::TokenConstraint>()> make_constraint;
  KvTransferFields kv_transfer;
  CreateOutputParser create_parser;  // null: the text is the content; set by the route
  int n = 1;
  bool add_special_tokens = true;
  Truncation truncation;
  std::optional<std::string> request_id;
  std::string client;                       // HttpRequest::client; set by the route
  std::optional<TraceParent> trace_parent;  // HttpRequest::trace_parent; set by the route
  bool echo = false;
  bool echo_only = false;  // max_tokens 0: one token is computed but not shown
  bool return_prompt_logprobs = false;
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;  // in log-probabilities
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  // The usage contains cached tokens, even without the server's option.
  bool cached_usage = false;
  // The usage contains Usage::decode_ns, which no chat request of a client asks for.
  bool timed_usage = false;
  int stream_interval = 1;          // tokens per chunk, except in the first and the last one
  bool return_prompt_text = false;  // in a chat: return the text that the chat template made

  std::string response_role = "assistant";
  std::vector<std::string> unused_fields;  // RequestFields::unused()

  /// The role of the answer: `response_role`, or with add_generation_prompt false the role of the
  /// last message.
  [[nodiscard]] std::string role() const;
  [[nodiscard]] int num_choices() const noexcept {
    return n * (is_chat ? 1 : static_cast<int>(prompts.size()));
  }
};

/// For these functions, `policy` gives the values of fields that are absent or null. A field that
/// would change the answer if this server supported it is refused by name; every other field
/// without effect is named in `unused_fields`. \throws ApiError 400 with the field at fault
[[nodiscard]] GenerationRequest parse_completion_request(std::string_view body,
                                                         const RequestPolicy& policy);
[[nodiscard]] GenerationRequest parse_chat_request(std::string_view body,
                                                   const RequestPolicy& policy);
/// The same for a body that is already parsed.
[[nodiscard]] GenerationRequest read_chat_request(const Json& body, const RequestPolicy& policy);

// Parts of these functions for other routes.

/// The model that the request names; an empty name counts as absent, as in vLLM.
[[nodiscard]] std::optional<std::string> read_model_name(const RequestFields& fields);
/// The member `name`: a text, token ids, or a list of either, with at most `max_count` entries.
[[nodiscard]] std::vector<Prompt> read_prompts(const RequestFields& fields,
                                               std::string_view name,
                                               size_t max_count = kMaxChoices);
void read_truncation(const RequestFields& fields, Truncation& truncation);
void read_request_options(const RequestFields& fields, scheduler::RequestOptions& options);
/// The id is returned in a header, so it must be a valid header value.
[[nodiscard]] std::optional<std::string> read_request_id(const RequestFields& fields);

}  // namespace reprise::server
