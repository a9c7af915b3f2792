#include "reprise/server/openai/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/chat_template_fields.h"
#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/sampling_fields.h"

namespace reprise::server {
namespace {

constexpr int kDefaultCompletionTokens = 16;
constexpr size_t kAnyCount = std::numeric_limits<size_t>::max();
constexpr size_t kMaxRequestIdBytes = 128;

/// Fields of OpenAI's or vLLM's API that would change the answer. A request with such a field is
/// refused, unless its value asks for what this server does anyway.
struct Unsupported {
  const char* name;
  const char* harmless = "null";  // JSON; so are null, false, "", [] and {}
  const char* instead = "";
};

constexpr Unsupported kUnsupported[] = {
    {.name = "audio", .instead = "Answers are text."},
    {.name = "function_call", .harmless = R"("none")", .instead = "Use `tool_choice`."},
    {.name = "functions", .instead = "Use `tools`."},
    {.name = "media_io_kwargs", .instead = "Messages are text."},
    {.name = "mm_processor_kwargs", .instead = "Messages are text."},
    {.name = "modalities", .harmless = R"(["text"])", .instead = R"(Only ["text"] is.)"},
    {.name = "moderation", .instead = "No model for it is served."},
    {.name = "prompt_embeds", .instead = "Prompts are texts or token ids."},
    {.name = "repetition_detection"},
    {.name = "suffix", .instead = "Write the model's own form of a gap into `prompt`."},
    {.name = "thinking_token_budget", .harmless = "-1", .instead = "Use `max_tokens`."},
    {.name = "use_beam_search"},
    {.name = "vllm_xargs", .instead = "No extension reads them."},
    {.name = "watermarking"},
    {.name = "web_search_options", .instead = "The server does not access the network."},
};

void refuse_what_is_not_there(const RequestFields& fields) {
  for (const Unsupported& field : kUnsupported) {
    const Json* value = fields.find(field.name);
    if (value == nullptr || asks_for_nothing(*value) || *value == Json::parse(field.harmless)) {
      continue;
    }
    refuse_unsupported(field.name, {}, field.instead);
  }
}

template <typename Value>
void assign(Value& target, const std::optional<Value>& value) {
  if (value) target = *value;
}

void read_stream_options(const RequestFields& fields,
                         const RequestPolicy& policy,
                         GenerationRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  request.include_usage = policy.enable_force_include_usage;
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) refuse_type("stream_options", "an object", *options);
  if (!request.stream) {
    throw ApiError(400, "Stream options can only be defined when `stream=True`.", "stream_options");
  }
  const RequestFields inner = fields.nested("stream_options", *options);
  inner.check_boolean("include_obfuscation", false);
  request.include_usage |= inner.boolean("include_usage").value_or(false);
  request.continuous_usage =
      request.include_usage && inner.boolean("continuous_usage_stats").value_or(false);
}

void read_stream_interval(const RequestFields& fields,
                          const RequestPolicy& policy,
                          GenerationRequest& request) {
  request.stream_interval = policy.stream_interval;
  const std::optional<int> interval = fields.int32("stream_interval");
  if (!interval) return;
  if (*interval < 1) {
    throw ApiError(400,
                   fmt::format("stream_interval is {}, expected at least 1.", *interval),
                   "stream_interval");
  }
  request.stream_interval = *interval;
}

void read_choices(const RequestFields& fields, GenerationRequest& request) {
  const int64_t n = fields.integer("n").value_or(1);
  if (n < 1 || n > kMaxN) {
    throw ApiError(400, fmt::format("n is {}, expected 1..{}.", n, kMaxN), "n");
  }
  request.n = static_cast<int>(n);
  if (const std::optional<int64_t> best_of = fields.integer("best_of"); best_of && *best_of != n) {
    refuse_unsupported("best_of", "`best_of` other than `n`");
  }
  if (request.num_choices() > kMaxChoices) {
    throw ApiError(
        400,
        fmt::format("The request asks for {} answers (prompts times n); at most {} are allowed.",
                    request.num_choices(),
                    kMaxChoices),
        "n");
  }
}

/// Reads the fields that both kinds of request share. The caller has already read the prompt.
void read_shared(const RequestFields& fields,
                 const RequestPolicy& policy,
                 GenerationRequest& request) {
  refuse_what_is_not_there(fields);
  request.model = read_model_name(fields);
  read_sampling_fields(fields, request.is_chat ? Api::chat : Api::completions, request.params);
  read_request_options(fields, request.options);
  read_stream_options(fields, policy, request);
  read_choices(fields, request);
  read_truncation(fields, request.truncation);
  request.request_id = read_request_id(fields);
  assign(request.echo, fields.boolean("echo"));
  assign(request.return_token_ids, fields.boolean("return_token_ids"));
  request.return_tokens_as_token_ids =
      fields.boolean("return_tokens_as_token_ids").value_or(policy.return_tokens_as_token_ids);
  request.asked_output = read_asked_output(fields);
  if (request.asked_output && policy.disable_any_whitespace) {
    request.asked_output->spec.any_whitespace = false;
  }
  request.kv_transfer = read_kv_transfer_params(fields);
  read_stream_interval(fields, policy, request);
  assign(request.add_special_tokens, fields.boolean("add_special_tokens"));
  fields.check_boolean("store", false);
}

}  // namespace

std::optional<std::string> read_model_name(const RequestFields& fields) {
  std::optional<std::string> name = fields.text("model");
  if (name && name->empty()) name.reset();
  return name;
}

void read_request_options(const RequestFields& fields, scheduler::RequestOptions& options) {
  assign(options.priority, fields.int32("priority"));
  const std::optional<std::string> salt = fields.text("cache_salt");
  if (!salt) return;
  // An empty salt would isolate nothing, although the client asked for isolation. vLLM refuses it
  // too.
  if (salt->empty() || salt->size() > scheduler::kMaxCacheSaltBytes) {
    throw ApiError(400,
                   fmt::format("cache_salt has {} bytes, expected 1..{}.",
                               salt->size(),
                               scheduler::kMaxCacheSaltBytes),
                   "cache_salt");
  }
  options.cache_salt = *salt;
}

void read_truncation(const RequestFields& fields, Truncation& truncation) {
  truncation.num_tokens = fields.integer("truncate_prompt_tokens");
  if (truncation.num_tokens && *truncation.num_tokens < 1 && *truncation.num_tokens != -1) {
    throw ApiError(400,
                   fmt::format("truncate_prompt_tokens is {}, expected -1 or at least 1.",
                               *truncation.num_tokens),
                   "truncate_prompt_tokens");
  }
  const std::optional<std::string> side = fields.text("truncation_side");
  if (side && *side != "left" && *side != "right") {
    throw ApiError(400, "truncation_side must be \"left\" or \"right\".", "truncation_side");
  }
  truncation.keeps_end = side.value_or("left") == "left";
}

std::optional<std::string> read_request_id(const RequestFields& fields) {
  std::optional<std::string> id = fields.text("request_id");
  if (id && (id->empty() || id->size() > kMaxRequestIdBytes ||
             !std::all_of(id->begin(), id->end(), [](char c) { return c > ' ' && c < 0x7F; }))) {
    throw ApiError(
        400,
        fmt::format("request_id must be 1..{} visible ASCII characters.", kMaxRequestIdBytes),
        "request_id");
  }
  return id;
}

std::vector<Prompt> read_prompts(const RequestFields& fields,
                                 std::string_view name,
                                 size_t max_count) {
  const Json* prompt = fields.find(name);
  if (prompt == nullptr)
    throw ApiError(400, fmt::format("Field required: {}.", name), std::string(name));
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array()) refuse_type(name, "a string or an array", *prompt);
  if (prompt->empty())
    throw ApiError(400, fmt::format("{} must not be empty.", name), std::string(name));
  if (prompt->front().is_number()) return {read_token_ids(*prompt, name, kAnyCount)};
  if (prompt->size() > max_count) {
    throw ApiError(
        400,
        fmt::format("{} has {} entries; at most {} are allowed.", name, prompt->size(), max_count),
        std::string(name));
  }
  std::vector<Prompt> prompts;
  for (const Json& item : *prompt) {
    if (item.is_string() != prompt->front().is_string()) {
      refuse_type(name, "an array of one kind: strings, token ids or arrays of token ids", item);
    }
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else {
      prompts.emplace_back(read_token_ids(item, name, kAnyCount));
    }
  }
  return prompts;
}

std::string GenerationRequest::role() const {
  if (chat_template.add_generation_prompt || messages.empty()) return response_role;
  return messages.back().at("role").get<std::string>();
}

GenerationRequest parse_completion_request(std::string_view body, const RequestPolicy& policy) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  GenerationRequest request{.params = policy.params};
  request.prompts = read_prompts(fields, "prompt");
  request.params.max_tokens = fields.int32("max_tokens").value_or(kDefaultCompletionTokens);
  read_shared(fields, policy, request);
  if (request.echo && request.params.max_tokens == 0) {
    request.echo_only = true;
    request.params.max_tokens = 1;
  }
  if (request.echo && !request.params.prompt_logprobs) {
    request.params.prompt_logprobs = request.params.logprobs;
  } else {
    request.return_prompt_logprobs = request.params.prompt_logprobs.has_value();
  }
  request.unused_fields = fields.unused();
  return request;
}

GenerationRequest parse_chat_request(std::string_view body, const RequestPolicy& policy) {
  return read_chat_request(parse_body(body), policy);
}

GenerationRequest read_chat_request(const Json& body, const RequestPolicy& policy) {
  const RequestFields fields(body);
  GenerationRequest request{.is_chat = true, .params = policy.params, .add_special_tokens = false};
  request.response_role = policy.response_role;
  ChatFields chat = read_chat_fields(fields, policy);
  request.messages = std::move(chat.messages);
  request.tools = std::move(chat.tools);
  request.chat_template = std::move(chat.chat_template);
  request.params.max_tokens = fields.int32("max_completion_tokens");
  if (!request.params.max_tokens) request.params.max_tokens = fields.int32("max_tokens");
  read_shared(fields, policy, request);
  request.return_prompt_logprobs = request.params.prompt_logprobs.has_value();
  request.return_prompt_text = fields.boolean("return_prompt_text").value_or(false);
  request.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  if (std::optional<AskedOutput> call = forced_call(request.tools)) {
    if (request.asked_output) {
      throw ApiError(
          400,
          fmt::format("`tool_choice` forces a call, so `{}` cannot say what the answer looks like.",
                      request.asked_output->field),
          "tool_choice");
    }
    request.asked_output = std::move(call);
  }
  request.unused_fields = fields.unused();
  return request;
}

}  // namespace reprise::server
