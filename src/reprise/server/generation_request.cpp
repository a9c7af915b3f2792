#include "reprise/server/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "reprise/base/error.h"
#include "reprise/server/api_error.h"
#include "reprise/server/request_fields.h"

namespace reprise::server {
namespace {

constexpr int kDefaultCompletionTokens = 16;
constexpr size_t kAnyCount = std::numeric_limits<size_t>::max();
// One more level than any message of a chat needs, many fewer than a stack.
constexpr int kMaxDepth = 64;

// Of OpenAI's and vLLM's API. Each would change the answer, so none may be passed over in silence.
constexpr std::array kUnsupportedIfPresent = {
    "audio",
    "chat_template",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "function_call",
    "kv_transfer_params",
    "logprob_token_ids",
    "modalities",
    "prediction",
    "prompt_embeds",
    "prompt_logprobs",
    "reasoning_effort",
    "repetition_detection",
    "structured_outputs",
    "suffix",
    "thinking_token_budget",
    "truncate_prompt_tokens",
    "vllm_xargs",
    "web_search_options",
};
constexpr std::array kUnsupportedIfTrue = {
    "continue_final_message",
    "echo",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "use_beam_search",
};
constexpr std::array kUnsupportedIfNotEmpty = {
    "bad_words",
    "chat_template_kwargs",
    "documents",
    "functions",
    "tools",
};

Json parse_body(std::string_view body) {
  try {
    return parse_json(body, "request body", {.max_bytes = kAnyCount, .max_depth = kMaxDepth});
  } catch (const InvalidArgument& error) {
    throw ApiError(400, error.what());
  }
}

void refuse_what_is_not_there(const RequestFields& fields) {
  for (const char* name : kUnsupportedIfPresent) {
    if (fields.find(name) != nullptr) refuse_unsupported(name);
  }
  for (const char* name : kUnsupportedIfTrue) {
    if (fields.boolean(name).value_or(false)) refuse_unsupported(name);
  }
  for (const char* name : kUnsupportedIfNotEmpty) {
    const Json* value = fields.find(name);
    if (value == nullptr) continue;
    if (!value->is_array() && !value->is_object())
      refuse_type(name, "an array or an object", *value);
    if (!value->empty()) refuse_unsupported(name);
  }
  // Tells whether the request wants them, in both of its shapes: an integer, or a switch.
  if (const Json* logprobs = fields.find("logprobs"); logprobs != nullptr && *logprobs != false) {
    refuse_unsupported("logprobs");
  }
  if (fields.integer("top_logprobs").value_or(0) != 0) refuse_unsupported("top_logprobs");
  if (!fields.boolean("add_generation_prompt").value_or(true)) {
    refuse_unsupported("add_generation_prompt", "`add_generation_prompt` false");
  }
  if (const Json* choice = fields.find("tool_choice"); choice != nullptr && *choice != "none") {
    refuse_unsupported("tool_choice");
  }
  if (const Json* format = fields.find("response_format")) {
    if (!format->is_object()) refuse_type("response_format", "an object", *format);
    const auto type = format->find("type");
    if (type == format->end() || *type != "text") {
      refuse_unsupported("response_format", "`response_format` other than {\"type\": \"text\"}");
    }
  }
}

std::vector<std::pair<int32_t, float>> read_logit_bias(const RequestFields& fields) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object()) refuse_type("logit_bias", "an object", *bias);
  if (bias->size() > size_t{kMaxLogitBiases}) {
    throw ApiError(
        400, fmt::format("logit_bias has more than {} entries.", kMaxLogitBiases), "logit_bias");
  }
  std::vector<std::pair<int32_t, float>> found;
  for (const auto& [key, value] : bias->items()) {
    int32_t id = 0;
    const bool is_digits = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (!is_digits || error != std::errc() || end != key.data() + key.size()) {
      throw ApiError(400, "Every key of logit_bias must be a token id.", "logit_bias");
    }
    if (!value.is_number()) refuse_type("logit_bias", "an object of numbers", value);
    found.emplace_back(
        id, std::clamp(value.get<float>(), -sampling::kMaxLogitBias, sampling::kMaxLogitBias));
  }
  return found;
}

template <typename Value>
void assign(Value& target, const std::optional<Value>& value) {
  if (value) target = *value;
}

void read_sampling(const RequestFields& fields, sampling::SamplingParams& params) {
  assign(params.temperature, fields.number("temperature"));
  assign(params.top_p, fields.number("top_p"));
  assign(params.top_k, fields.int32("top_k"));
  assign(params.min_p, fields.number("min_p"));
  params.seed = fields.integer("seed");
  assign(params.repetition_penalty, fields.number("repetition_penalty"));
  assign(params.presence_penalty, fields.number("presence_penalty"));
  assign(params.frequency_penalty, fields.number("frequency_penalty"));
  assign(params.min_tokens, fields.int32("min_tokens"));
  params.stop = fields.texts("stop");
  params.stop_token_ids = fields.token_ids("stop_token_ids", kMaxTokenIdList);
  assign(params.ignore_eos, fields.boolean("ignore_eos"));
  assign(params.include_stop_str_in_output, fields.boolean("include_stop_str_in_output"));
  assign(params.skip_special_tokens, fields.boolean("skip_special_tokens"));
  params.logit_bias = read_logit_bias(fields);
  params.allowed_token_ids = fields.token_ids("allowed_token_ids", kAnyCount);
}

void read_options(const RequestFields& fields, engine::RequestOptions& options) {
  assign(options.priority, fields.int32("priority"));
  const std::optional<std::string> salt = fields.text("cache_salt");
  if (!salt) return;
  // As vLLM: an empty salt would isolate nothing, and whoever sends one means to be isolated.
  if (salt->empty() || salt->size() > engine::kMaxCacheSaltBytes) {
    throw ApiError(400,
                   fmt::format("cache_salt has {} bytes, expected 1..{}.",
                               salt->size(),
                               engine::kMaxCacheSaltBytes),
                   "cache_salt");
  }
  options.cache_salt = *salt;
}

void read_stream_options(const RequestFields& fields, GenerationRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) refuse_type("stream_options", "an object", *options);
  if (!request.stream) {
    throw ApiError(400, "Stream options can only be defined when `stream=True`.", "stream_options");
  }
  const RequestFields inner(*options);
  request.include_usage = inner.boolean("include_usage").value_or(false);
  request.continuous_usage =
      request.include_usage && inner.boolean("continuous_usage_stats").value_or(false);
}

void read_choices(const RequestFields& fields, GenerationRequest& request) {
  const int64_t n = fields.integer("n").value_or(1);
  if (n < 1 || n > kMaxChoices) {
    throw ApiError(400, fmt::format("n is {}, expected 1..{}.", n, kMaxChoices), "n");
  }
  request.n = static_cast<int>(n);
  if (const std::optional<int64_t> best_of = fields.integer("best_of"); best_of && *best_of != n) {
    refuse_unsupported("best_of", "`best_of` other than `n`");
  }
  if (n > 1 && request.params.is_greedy()) {
    throw ApiError(400, fmt::format("n must be 1 when using greedy sampling, got {}.", n), "n");
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

/// What both kinds of request share; the prompt is read before.
void read_shared(const RequestFields& fields, GenerationRequest& request) {
  refuse_what_is_not_there(fields);
  request.model = fields.text("model");
  read_sampling(fields, request.params);
  read_options(fields, request.options);
  read_stream_options(fields, request);
  read_choices(fields, request);
  assign(request.add_special_tokens, fields.boolean("add_special_tokens"));
}

std::vector<Prompt> read_prompts(const RequestFields& fields) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) throw ApiError(400, "Field required: prompt.", "prompt");
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array()) refuse_type("prompt", "a string or an array", *prompt);
  if (prompt->empty()) throw ApiError(400, "prompt must not be empty.", "prompt");
  if (prompt->front().is_number()) return {read_token_ids(*prompt, "prompt", kAnyCount)};
  if (prompt->size() > size_t{kMaxChoices}) {
    throw ApiError(
        400,
        fmt::format("prompt has {} entries; at most {} are allowed.", prompt->size(), kMaxChoices),
        "prompt");
  }
  std::vector<Prompt> prompts;
  for (const Json& item : *prompt) {
    if (item.is_string() != prompt->front().is_string()) {
      refuse_type(
          "prompt", "an array of one kind: strings, token ids or arrays of token ids", item);
    }
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else {
      prompts.emplace_back(read_token_ids(item, "prompt", kAnyCount));
    }
  }
  return prompts;
}

/// Content as a string; parts of text are joined by line ends, as vLLM does for templates that take
/// strings.
std::string read_content(const Json& content) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse_type("messages", "content as a string or an array of parts", content);
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object()) refuse_type("messages", "content parts as objects", part);
    const RequestFields fields(part);
    if (fields.text("type").value_or("") != "text") {
      refuse_unsupported("messages", "Message content other than text");
    }
    const std::optional<std::string> piece = fields.text("text");
    if (!piece) throw ApiError(400, "A content part of type text needs a text.", "messages");
    if (&part != &content.front()) text += '\n';
    text += *piece;
  }
  return text;
}

Json read_messages(const RequestFields& fields) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr) throw ApiError(400, "Field required: messages.", "messages");
  if (!messages->is_array()) refuse_type("messages", "an array", *messages);
  if (messages->empty()) throw ApiError(400, "messages must not be empty.", "messages");
  if (messages->size() > size_t{kMaxMessages}) {
    throw ApiError(
        400,
        fmt::format(
            "messages has {} entries; at most {} are allowed.", messages->size(), kMaxMessages),
        "messages");
  }
  Json read = Json::array();
  for (const Json& message : *messages) {
    if (!message.is_object()) refuse_type("messages", "an array of objects", message);
    const RequestFields inner(message);
    const std::optional<std::string> role = inner.text("role");
    if (!role) throw ApiError(400, "Every message needs a role.", "messages");
    const Json* calls = inner.find("tool_calls");
    if (*role == "tool" || *role == "function" || (calls != nullptr && !calls->empty())) {
      refuse_unsupported("messages", "A message that calls a tool or answers such a call");
    }
    const Json* content = inner.find("content");
    if (content == nullptr && *role != "assistant") {
      throw ApiError(400, fmt::format("A message of role {} needs content.", *role), "messages");
    }
    Json copy = {{"role", *role},
                 {"content", content == nullptr ? std::string() : read_content(*content)}};
    if (const std::optional<std::string> name = inner.text("name")) copy["name"] = *name;
    read.push_back(std::move(copy));
  }
  return read;
}

}  // namespace

GenerationRequest parse_completion_request(std::string_view body,
                                           const sampling::SamplingParams& defaults) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  GenerationRequest request{.params = defaults};
  request.prompts = read_prompts(fields);
  request.params.max_tokens = fields.int32("max_tokens").value_or(kDefaultCompletionTokens);
  read_shared(fields, request);
  return request;
}

GenerationRequest parse_chat_request(std::string_view body,
                                     const sampling::SamplingParams& defaults) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  GenerationRequest request{.is_chat = true, .params = defaults, .add_special_tokens = false};
  request.messages = read_messages(fields);
  request.params.max_tokens = fields.int32("max_completion_tokens");
  if (!request.params.max_tokens) request.params.max_tokens = fields.int32("max_tokens");
  read_shared(fields, request);
  return request;
}

TokenizeRequest parse_tokenize_request(std::string_view body) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  TokenizeRequest request{.model = fields.text("model"), .prompt = fields.text("prompt")};
  if (!request.prompt) {
    if (fields.find("messages") == nullptr) {
      throw ApiError(400, "Field required: prompt, or messages.", "prompt");
    }
    if (!fields.boolean("add_generation_prompt").value_or(true)) {
      refuse_unsupported("add_generation_prompt", "`add_generation_prompt` false");
    }
    request.messages = read_messages(fields);
  }
  request.add_special_tokens =
      fields.boolean("add_special_tokens").value_or(request.prompt.has_value());
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  return request;
}

DetokenizeRequest parse_detokenize_request(std::string_view body) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  if (fields.find("tokens") == nullptr) throw ApiError(400, "Field required: tokens.", "tokens");
  return {.model = fields.text("model"), .tokens = fields.token_ids("tokens", kAnyCount)};
}

void check_sampling(const GenerationRequest& request, int vocab_size) {
  try {
    sampling::validate(request.params, vocab_size);
  } catch (const InvalidArgument& error) {
    // The message begins with the field: "top_p is 2", "stop[3] is", "logit_bias key is".
    const std::string_view message = error.what();
    const size_t end = message.find_first_of(" [");
    throw ApiError(400, std::string(message), std::string(message.substr(0, end)));
  }
}

}  // namespace reprise::server
