#include "reprise/server/dialects/dialect_schemas.h"

#include <string>
#include <string_view>

namespace reprise::server {
namespace {

// Every member may also be null, which means absent, unless it is required. Members that the
// answer's header X-Unused-Fields names have no description.
constexpr std::string_view kMessages = R"({
  "required": ["messages", "max_tokens"],
  "properties": {
    "model": {"type": "string"},
    "messages": {"type": "array", "minItems": 1, "items": {
      "type": "object", "required": ["role", "content"], "properties": {
        "role": {"type": "string", "minLength": 1, "maxLength": 64},
        "content": {"oneOf": [{"type": "string"}, {"type": "array", "items": {
          "type": "object", "required": ["type"], "properties": {
            "type": {"enum": ["text", "thinking", "redacted_thinking", "tool_use", "tool_result",
                              "tool_addition", "tool_removal"]},
            "text": {"type": "string"}, "thinking": {"type": "string"},
            "signature": {"type": "string"}, "id": {"type": "string"},
            "name": {"type": "string"}, "input": {"type": "object"},
            "tool_use_id": {"type": "string"}, "tool": {"type": "object"},
            "content": {"oneOf": [{"type": "string"},
                                  {"type": "array", "items": {"type": "object"}}]}}}}]}}}},
    "max_tokens": {"type": "integer", "minimum": 1, "maximum": 2147483647},
    "system": {"oneOf": [{"type": "string"}, {"type": "array", "items": {
      "type": "object", "required": ["type", "text"], "properties": {
        "type": {"const": "text"}, "text": {"type": "string"}}}}]},
    "stop_sequences": {"type": "array", "items": {"type": "string"}},
    "stream": {"type": "boolean"},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_k": {"type": "integer", "minimum": -1, "maximum": 2147483647},
    "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "tools": {"type": "array", "maxItems": 128, "items": {
      "type": "object", "required": ["name"], "properties": {
        "type": {"const": "custom"}, "name": {"type": "string", "minLength": 1},
        "description": {"type": "string"}, "input_schema": {"type": "object"},
        "strict": {"type": "boolean"}, "defer_loading": {"type": "boolean"}}}},
    "tool_choice": {"type": "object", "required": ["type"], "properties": {
      "type": {"enum": ["auto", "any", "tool", "none"]}, "name": {"type": "string"},
      "disable_parallel_tool_use": {"type": "boolean"}}},
    "thinking": {"type": "object", "required": ["type"], "properties": {
      "type": {"enum": ["enabled", "disabled", "adaptive"]}}},
    "output_config": {"type": "object", "properties": {
      "effort": {"enum": ["low", "medium", "high", "xhigh", "max"]},
      "format": {"type": "object", "required": ["type", "schema"], "properties": {
        "type": {"const": "json_schema"}, "schema": {"type": "object"}}}}},
    "output_format": {"type": "object", "required": ["type", "schema"], "properties": {
      "type": {"const": "json_schema"}, "schema": {"type": "object"}}},
    "metadata": {"type": "object"}, "service_tier": {"type": "string"},
    "context_management": {"type": "object"}}})";

constexpr std::string_view kResponses = R"({
  "required": ["input"],
  "properties": {
    "model": {"type": "string"},
    "input": {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {
      "type": "object", "properties": {
        "type": {"enum": ["message", "reasoning", "function_call", "function_call_output",
                          "custom_tool_call", "custom_tool_call_output"]},
        "role": {"type": "string"},
        "content": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
        "summary": {"type": "array", "items": {"type": "object"}},
        "call_id": {"type": "string"}, "name": {"type": "string"}, "namespace": {"type": "string"},
        "arguments": {"type": "string"}, "input": {"type": "string"},
        "output": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}}}}]},
    "instructions": {"type": "string"},
    "previous_response_id": {"type": "string"},
    "store": {"type": "boolean"},
    "stream": {"type": "boolean"},
    "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 2147483647},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
    "include": {"type": "array", "items": {"type": "string"}},
    "tools": {"type": "array", "items": {"type": "object", "properties": {
      "type": {"type": "string"}, "name": {"type": "string"}, "description": {"type": "string"},
      "parameters": {"type": "object"}, "strict": {"type": "boolean"},
      "tools": {"type": "array", "items": {"type": "object"}}}}},
    "tool_choice": {"oneOf": [{"enum": ["none", "auto", "required"]},
                              {"type": "object", "required": ["type"]}]},
    "parallel_tool_calls": {"type": "boolean"},
    "text": {"type": "object", "properties": {
      "format": {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["text", "json_object", "json_schema"]}, "name": {"type": "string"},
        "description": {"type": "string"}, "strict": {"type": "boolean"},
        "schema": {"type": "object"}}}}},
    "reasoning": {"type": "object", "properties": {
      "effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]}}},
    "truncation": {"enum": ["auto", "disabled"]},
    "metadata": {"type": "object"},
    "top_k": {"type": "integer", "minimum": -1, "maximum": 2147483647},
    "min_p": {"type": "number", "minimum": 0, "maximum": 1},
    "seed": {"type": "integer"},
    "stop": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "stop_token_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "ignore_eos": {"type": "boolean"},
    "min_tokens": {"type": "integer", "minimum": 0},
    "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "repetition_penalty": {"type": "number", "exclusiveMinimum": 0},
    "logit_bias": {"type": "object", "additionalProperties": {"type": "number"}},
    "chat_template_kwargs": {"type": "object"},
    "include_reasoning": {"type": "boolean"},
    "priority": {"type": "integer"},
    "cache_salt": {"type": "string", "minLength": 1},
    "max_tool_calls": {"type": "integer"}, "user": {"type": "string"},
    "prompt_cache_key": {"type": "string"}, "safety_identifier": {"type": "string"},
    "service_tier": {"type": "string"}}})";

constexpr std::string_view kOllamaShared = R"({
    "model": {"type": "string"},
    "stream": {"type": "boolean"},
    "format": {"oneOf": [{"enum": ["", "json"]}, {"type": "object"}]},
    "think": {"oneOf": [{"type": "boolean"}, {"enum": ["low", "medium", "high"]}]},
    "options": {"type": "object", "properties": {
      "temperature": {"type": "number", "minimum": 0, "maximum": 2},
      "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
      "top_k": {"type": "integer", "minimum": -1}, "min_p": {"type": "number"},
      "seed": {"type": "integer"}, "num_predict": {"type": "integer"},
      "stop": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
      "repeat_penalty": {"type": "number", "exclusiveMinimum": 0},
      "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
      "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2}}},
    "keep_alive": {}})";

constexpr std::string_view kOllamaMessages = R"({"type": "array", "items": {
  "type": "object", "required": ["role"], "properties": {
    "role": {"type": "string", "minLength": 1}, "content": {"type": "string"},
    "thinking": {"type": "string"}, "tool_name": {"type": "string"},
    "tool_calls": {"type": "array", "items": {"type": "object"}}}}})";

constexpr std::string_view kOllamaEmbed = R"({"required": ["model", "input"], "properties": {
  "model": {"type": "string"},
  "input": {"oneOf": [{"type": "string"},
                      {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
  "truncate": {"type": "boolean"}, "dimensions": {"type": "integer", "minimum": 1},
  "keep_alive": {}}})";

/// The schema of a body in which no member needs to be present except the required ones.
Json body_of(const Json& described) {
  Json schema = {{"type", "object"}};
  const Json required = described.value("required", Json::array());
  if (!required.empty()) schema["required"] = required;
  for (const auto& [name, member] : described["properties"].items()) {
    bool must = false;
    for (const Json& one : required) must |= one == name;
    schema["properties"][name] =
        must ? member : Json{{"anyOf", Json::array({member, {{"type", "null"}}})}};
  }
  return schema;
}

Json ollama_body(const char* required, const Json& further) {
  Json described = {{"required", Json::array({"model"})},
                    {"properties", Json::parse(kOllamaShared)}};
  if (required != nullptr) described["required"].push_back(required);
  described["properties"].update(further);
  return body_of(described);
}

}  // namespace

Json dialect_schemas() {
  const Json text = {{"type", "string"}};
  Json messages = Json::parse(kMessages);
  Json schemas;
  schemas["MessagesRequest"] = body_of(messages);
  messages["required"] = {"messages"};
  for (const char* of_answers :
       {"max_tokens", "stop_sequences", "stream", "temperature", "top_k", "top_p"}) {
    messages["properties"].erase(of_answers);
  }
  schemas["CountTokensRequest"] = body_of(messages);
  schemas["ResponsesRequest"] = body_of(Json::parse(kResponses));
  schemas["OllamaChatRequest"] =
      ollama_body("messages",
                  {{"messages", Json::parse(kOllamaMessages)},
                   {"tools", {{"type", "array"}, {"items", {{"type", "object"}}}}}});
  schemas["OllamaGenerateRequest"] =
      ollama_body(nullptr, {{"prompt", text}, {"system", text}, {"raw", {{"type", "boolean"}}}});
  schemas["OllamaShowRequest"] = body_of({{"properties", {{"model", text}, {"name", text}}}});
  schemas["OllamaEmbedRequest"] = body_of(Json::parse(kOllamaEmbed));
  schemas["OllamaEmbeddingsRequest"] = body_of(
      {{"required", {"model", "prompt"}},
       {"properties", {{"model", text}, {"prompt", text}, {"keep_alive", Json::object()}}}});
  return schemas;
}

}  // namespace reprise::server
