#include "reprise/server/openai/api_schemas.h"

#include <span>
#include <string>
#include <string_view>

#include "reprise/server/openai/generation_request.h"

namespace reprise::server {
namespace {

/// A member of a body. Every member may also be null, which means absent, unless it is required.
struct Field {
  std::string_view name;
  std::string_view schema;  // JSON
  std::string_view what = {};
};

constexpr std::string_view kBoolean = R"({"type": "boolean"})";
constexpr std::string_view kString = R"({"type": "string"})";
constexpr std::string_view kNames = R"({"type": "array", "items": {"type": "string"}})";
constexpr std::string_view kTokenIds =
    R"({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}})";
constexpr std::string_view kPenalty = R"({"type": "number", "minimum": -2, "maximum": 2})";
constexpr std::string_view kPositive =
    R"({"type": "integer", "minimum": 1, "maximum": 2147483647})";
constexpr std::string_view kInt64 =
    R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})";

constexpr std::string_view kNumLogprobs = R"({"type": "integer", "minimum": 0, "maximum": 20})";

constexpr Field kModel = {"model", kString, "A name of the served model; absent: that model."};
constexpr Field kAddSpecialTokens = {
    "add_special_tokens", kBoolean, "Whether special tokens such as BOS are added to the prompt."};
constexpr Field kPrompt = {"prompt",
                           R"({"oneOf": [{"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
        {"type": "array", "minItems": 1, "items":
          {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}}]})",
                           "Text, token ids, or a list of either."};
constexpr Field kMessages = {
    "messages",
    R"({"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}})"};

constexpr std::string_view kResponseFormat = R"({
  "type": "object", "required": ["type"],
  "properties": {
    "type": {"enum": ["text", "json_object", "json_schema", "structural_tag"]},
    "json_schema": {"type": "object", "required": ["schema"], "properties": {
      "name": {"type": "string"}, "description": {"type": ["string", "null"]},
      "strict": {"type": ["boolean", "null"]},
      "schema": {"type": ["object", "boolean", "string"]}}},
    "format": {"type": "object"},
    "structures": {"type": "array", "items": {"type": "object"}},
    "triggers": {"type": "array", "items": {"type": "string"}}}})";
constexpr std::string_view kTools = R"({
  "type": "array", "maxItems": 128, "items": {
    "type": "object", "required": ["function"],
    "properties": {
      "type": {"const": "function"}, "defer_loading": {"type": ["boolean", "null"]},
      "function": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1}, "description": {"type": ["string", "null"]},
        "strict": {"type": ["boolean", "null"]}, "defer_loading": {"type": ["boolean", "null"]},
        "parameters": {"type": ["object", "null"]}}}}}})";
constexpr std::string_view kToolChoice = R"({
  "oneOf": [
    {"enum": ["none", "auto", "required"]},
    {"type": "object", "required": ["function"], "properties": {
      "type": {"const": "function"},
      "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}},
    {"type": "object", "required": ["type", "allowed_tools"], "properties": {
      "type": {"const": "allowed_tools"},
      "allowed_tools": {"type": "object", "required": ["mode", "tools"], "properties": {
        "mode": {"enum": ["auto", "required"]},
        "tools": {"type": "array", "minItems": 1, "items": {"type": "object"}}}}}}]})";

// Fields of OpenAI's and vLLM's APIs that have no effect here. They are described so that clients
// see that they are accepted.
constexpr std::string_view kNoEffect =
    "No effect here; the header X-Unused-Fields of the answer names it.";
constexpr std::string_view kAny = "{}";
constexpr Field kUnused[] = {
    {"ec_transfer_params", kAny, kNoEffect},
    {"guided_decoding_backend", kString, kNoEffect},
    {"guided_whitespace_pattern", kString, kNoEffect},
    {"length_penalty", R"({"type": "number"})", kNoEffect},
    {"metadata", kAny, kNoEffect},
    {"mm_payload", kString, kNoEffect},
    {"prediction", kAny, kNoEffect},
    {"prompt_cache_key", kString, kNoEffect},
    {"prompt_cache_options", kAny, kNoEffect},
    {"prompt_cache_retention", kString, kNoEffect},
    {"return_mm_kwargs", kBoolean, kNoEffect},
    {"return_token_offsets", kBoolean, kNoEffect},
    {"routed_experts_prompt_start", R"({"type": "integer"})", kNoEffect},
    {"safety_identifier", kString, kNoEffect},
    {"service_tier", kString, kNoEffect},
    {"session_id", kString, kNoEffect},
    {"store",
     kBoolean,
     "Answers are never stored; the header X-Unused-Fields names this field if it is true."},
    {"user", kString, kNoEffect},
    {"verbosity", kString, kNoEffect},
};

constexpr Field kSampling[] = {
    {"max_tokens", kPositive, "Most tokens to generate."},
    {"temperature", R"({"type": "number", "minimum": 0, "maximum": 2})", "0 is greedy."},
    {"top_p", R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1})"},
    {"top_k", R"({"type": "integer", "minimum": -1, "maximum": 2147483647})", "0, -1: all."},
    {"min_p", R"({"type": "number", "minimum": 0, "maximum": 1})"},
    {"seed", kInt64, "-1: as if absent."},
    {"n", R"({"type": "integer", "minimum": 1, "maximum": 128})", "Answers to each prompt."},
    {"stop",
     R"({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})",
     "Texts that end the answer."},
    {"stop_token_ids", kTokenIds},
    {"presence_penalty", kPenalty},
    {"frequency_penalty", kPenalty},
    {"repetition_penalty", R"({"type": "number", "exclusiveMinimum": 0})"},
    {"min_tokens", R"({"type": "integer", "minimum": 0, "maximum": 2147483647})"},
    {"ignore_eos", kBoolean},
    {"include_stop_str_in_output", kBoolean},
    {"skip_special_tokens", kBoolean},
    {"spaces_between_special_tokens", kBoolean},
    {"logit_bias",
     R"({"type": "object", "additionalProperties": {"type": "number"}})",
     "Added to the logits of token ids; beyond -100 and 100: these."},
    {"allowed_token_ids", kTokenIds, "Only these can be generated."},
    {"bad_words",
     R"({"type": "array", "maxItems": 128, "items": {"type": "string", "minLength": 1}})",
     "Words that are not generated."},
    {"prompt_logprobs",
     kNumLogprobs,
     "Log-probabilities of the prompt; not with stream. -1: of all tokens, with --max-logprobs "
     "-1."},
    {"logprob_token_ids",
     R"({"type": "array", "maxItems": 128, "items": {"type": "integer", "minimum": 0}})",
     "With logprobs: these tokens at each position instead of the likeliest."},
    {"truncate_prompt_tokens",
     R"({"type": "integer", "minimum": -1, "maximum": 9223372036854775807})",
     "Number of tokens of the prompt to keep; -1: as many as fit."},
    {"truncation_side", R"({"enum": ["left", "right"]})"},
    {"request_id",
     R"({"type": "string", "minLength": 1, "maxLength": 128})",
     "Part of the answer's id."},
    {"return_token_ids", kBoolean, "Token ids of prompt and answer."},
    {"return_tokens_as_token_ids", kBoolean, "Log-probabilities name tokens \"token_id:5\"."},
    {"priority",
     R"({"type": "integer", "minimum": -2147483648, "maximum": 2147483647})",
     "Lower is served earlier, with --scheduling-policy priority."},
    {"cache_salt",
     R"({"type": "string", "minLength": 1})",
     "Only requests with the same salt share cached prefixes."},
    {"stream", kBoolean, "Send the answer as server-sent events while it is made."},
    {"stream_options",
     R"({"type": "object", "properties": {"include_usage": {"type": "boolean"},
         "continuous_usage_stats": {"type": "boolean"}, "include_obfuscation": {"type": "boolean"}}})",
     "Only with stream."},
    {"stream_interval", kPositive, "Tokens of a chunk, except for the first and the last one."},
    {"response_format", kResponseFormat, "Form of the answer."},
    {"structured_outputs",
     R"({"type": "object", "properties": {
         "json": {"type": ["object", "boolean", "string"]}, "regex": {"type": "string"},
         "choice": {"type": "array", "items": {"type": "string"}}, "grammar": {"type": "string"},
         "json_object": {"type": "boolean"}, "structural_tag": {"type": ["object", "string"]},
         "disable_any_whitespace": {"type": "boolean"},
         "disable_additional_properties": {"type": "boolean"}}})",
     "Form of the answer: one of these."},
    {"guided_json", R"({"type": ["object", "boolean", "string"]})", "As structured_outputs.json."},
    {"guided_regex", kString, "As structured_outputs.regex."},
    {"guided_choice", R"({"type": "array", "items": {"type": "string"}})"},
    {"guided_grammar", kString, "As structured_outputs.grammar."},
    kAddSpecialTokens,
};

constexpr Field kCompletion[] = {
    {"echo", kBoolean, "The answer begins with the prompt."},
    {"logprobs", kNumLogprobs, "Number of the likeliest tokens at each position."},
};
constexpr Field kChatTemplate[] = {
    {"add_generation_prompt",
     kBoolean,
     "Whether the prompt ends with the beginning of the assistant's turn."},
    {"continue_final_message", kBoolean, "The answer continues the last message."},
    {"chat_template_kwargs", R"({"type": "object"})", "Variables of the chat template."},
    {"reasoning_effort",
     R"({"type": "string", "enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]})",
     "A variable of the chat template."},
    {"documents", R"({"type": "array", "items": {"type": "object"}})"},
};
constexpr Field kChat[] = {
    {"max_completion_tokens", kPositive},
    {"echo", kBoolean, "The answer begins with the last message of its role."},
    {"logprobs", kBoolean},
    {"top_logprobs", kNumLogprobs, "Only with logprobs."},
    {"tools", kTools, "Functions that the model may call."},
    {"tool_choice",
     kToolChoice,
     "Whether the model may or must call a function, or which one; auto by default."},
    {"parallel_tool_calls", kBoolean, "Whether a forced answer may hold several calls."},
    {"include_reasoning", kBoolean, "Whether the answer shows its reasoning."},
    {"return_prompt_text",
     kBoolean,
     "The answer contains the result of the chat template, as prompt_text."},
};

constexpr Field kInput = {"input", kPrompt.schema, kPrompt.what};
constexpr std::string_view kTexts = R"({"oneOf": [{"type": "string"},
    {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "string"}}]})";
constexpr Field kEncodingFormat = {"encoding_format",
                                   R"({"enum": ["float", "base64"]})",
                                   "base64: of the bytes of float32 values."};
constexpr Field kDimensions = {"dimensions",
                               R"({"type": "integer", "minimum": 1})",
                               "The numbers of a vector that are kept, if the model allows it."};
// The fields that every route for vectors accepts.
constexpr Field kPooling[] = {
    kModel,
    kAddSpecialTokens,
    {"normalize", kBoolean, "Whether vectors have length 1; absent: as the model says."},
    {"use_activation", kBoolean, "false: a classifier's scores instead of probabilities."},
    {"truncate_prompt_tokens",
     R"({"type": "integer", "minimum": -1, "maximum": 9223372036854775807})",
     "Number of tokens of a text to keep; -1: as many as fit."},
    {"truncation_side", R"({"enum": ["left", "right"]})"},
    {"request_id",
     R"({"type": "string", "minLength": 1, "maxLength": 128})",
     "Part of the answer's id."},
    {"priority",
     R"({"type": "integer", "minimum": -2147483648, "maximum": 2147483647})",
     "Lower is served earlier, with --scheduling-policy priority."},
    {"cache_salt",
     R"({"type": "string", "minLength": 1})",
     "Only requests with the same salt share cached prefixes."},
    {"user", kString, kNoEffect},
};

constexpr std::string_view kMessage = R"({
  "type": "object", "required": ["role"],
  "properties": {
    "role": {"type": "string", "minLength": 1, "maxLength": 64},
    "name": {"type": ["string", "null"]},
    "tool_call_id": {"type": ["string", "null"]},
    "tool_calls": {"type": ["array", "null"], "items": {
      "type": "object", "required": ["function"],
      "properties": {"id": {"type": "string"}, "function": {
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "arguments": {"type": ["string", "object", "null"]}}}}}},
    "function_call": {"type": ["object", "null"], "required": ["name"],
      "properties": {"name": {"type": "string"}, "arguments": {"type": ["string", "object", "null"]}}},
    "refusal": {"type": ["string", "null"]}, "reasoning": {"type": ["string", "null"]},
    "reasoning_content": {"type": ["string", "null"]}, "thinking": {"type": ["string", "null"]},
    "content": {"oneOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"oneOf": [
      {"type": "string"},
      {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["text", "input_text", "output_text", "refusal", "thinking", "reasoning"]},
        "text": {"type": ["string", "null"]}, "refusal": {"type": ["string", "null"]},
        "thinking": {"type": ["string", "null"]}, "reasoning": {"type": ["string", "null"]}}}]}}]}}})";

constexpr std::string_view kError = R"({
  "type": "object", "required": ["error"],
  "properties": {"error": {
    "type": "object", "required": ["message", "type", "param", "code"],
    "properties": {
      "message": {"type": "string"}, "type": {"type": "string"},
      "param": {"type": ["string", "null"]}, "code": {"type": "integer"}}}}})";

class BodySchema {
 public:
  BodySchema& require(const Field& field) {
    schema_["required"].push_back(std::string(field.name));
    schema_["properties"][std::string(field.name)] = read(field);
    return *this;
  }
  BodySchema& allow(const Field& field) {
    Json schema = read(field);
    schema_["properties"][std::string(field.name)] = {
        {"anyOf", Json::array({std::move(schema), {{"type", "null"}}})}};
    return *this;
  }
  BodySchema& allow(std::span<const Field> fields) {
    for (const Field& field : fields) allow(field);
    return *this;
  }
  [[nodiscard]] Json take() { return std::move(schema_); }

 private:
  static Json read(const Field& field) {
    Json schema = Json::parse(field.schema);
    if (!field.what.empty()) schema["description"] = std::string(field.what);
    return schema;
  }

  Json schema_ = {{"type", "object"}};
};

Json change_graphs_request() {
  return BodySchema()
      .allow({"cudagraph_mode", kString, "Mode of the graphs; null: the default."})
      .allow({"cudagraph_capture_sizes", kTokenIds, "Sizes of the graphs; null: the default."})
      .allow({"max_cudagraph_capture_size", kPositive, "The largest of the default sizes."})
      .allow({"shadow_check_rate",
              R"({"type": "number", "minimum": 0, "maximum": 1})",
              "The share of replays that run again without their graph."})
      .allow({"verify_graphs",
              R"({"enum": ["off", "capture", "strict"]})",
              "What is proved before a graph may be replayed."})
      .allow({"quarantine", kNames, "Graphs that are not replayed any more."})
      .allow({"release", kNames, "Quarantined graphs that are captured and verified again."})
      .allow({"capture_budget_ms",
              R"({"type": "number", "minimum": 0.01, "maximum": 60000, "default": 5})",
              "Milliseconds that captures may add to a step on average while requests run."})
      .take();
}

}  // namespace

Json api_schemas() {
  Json schemas;
  schemas["Message"] = Json::parse(kMessage);
  schemas["Error"] = Json::parse(kError);
  schemas["CompletionRequest"] = BodySchema()
                                     .require(kPrompt)
                                     .allow(kModel)
                                     .allow(kCompletion)
                                     .allow(kSampling)
                                     .allow(kUnused)
                                     .take();
  schemas["ChatCompletionRequest"] = BodySchema()
                                         .require(kMessages)
                                         .allow(kModel)
                                         .allow(kChat)
                                         .allow(kChatTemplate)
                                         .allow(kSampling)
                                         .allow(kUnused)
                                         .take();
  schemas["TokenizeRequest"] = BodySchema()
                                   .allow(kModel)
                                   .allow({"prompt", kString})
                                   .allow(kMessages)
                                   .allow(kChatTemplate)
                                   .allow(kAddSpecialTokens)
                                   .allow({"return_token_strs", kBoolean})
                                   .take();
  schemas["EmbeddingRequest"] =
      BodySchema().require(kInput).allow(kEncodingFormat).allow(kDimensions).allow(kPooling).take();
  schemas["ClassifyRequest"] = BodySchema().require(kInput).allow(kPooling).take();
  schemas["ScoreRequest"] =
      BodySchema().require({"text_1", kTexts}).require({"text_2", kTexts}).allow(kPooling).take();
  schemas["RerankRequest"] =
      BodySchema()
          .require({"query", kString})
          .require({"documents",
                    R"({"type": "array", "minItems": 1, "maxItems": 2048,
                        "items": {"type": "string"}})"})
          .allow({"top_n",
                  R"({"type": "integer", "minimum": 0, "maximum": 9223372036854775807})",
                  "The most documents of the answer; 0: all."})
          .allow(kPooling)
          .take();
  schemas["LoadLoRAAdapterRequest"] = BodySchema()
                                          .require({"lora_name", kString})
                                          .require({"lora_path", kString})
                                          .allow({"load_inplace", kBoolean})
                                          .take();
  schemas["UnloadLoRAAdapterRequest"] = BodySchema().require({"lora_name", kString}).take();
  schemas["ChangeGraphsRequest"] = change_graphs_request();
  schemas["DetokenizeRequest"] = BodySchema().require({"tokens", kTokenIds}).allow(kModel).take();
  return schemas;
}

}  // namespace reprise::server
