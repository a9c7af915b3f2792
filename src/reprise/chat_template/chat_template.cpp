#include "reprise/chat_template/chat_template.h"

#include <fmt/format.h>

#include <array>
#include <new>
#include <stdexcept>

#include "reprise/chat_template/evaluator.h"
#include "reprise/chat_template/parser.h"

namespace reprise::chat_template {

struct ChatTemplate::Parsed {
  ast::Template tree;
  Limits limits;
};

namespace {

// The sandbox does not account for input values: the caller has already limited their size.
Value from_json(const Json& json, const Limits& limits, int depth) {
  if (depth > limits.max_value_depth) {
    throw TemplateError(TemplateError::Cause::limit, {}, "the variables nest too deep");
  }
  switch (json.type()) {
    case Json::value_t::null:
      return {};
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw InvalidArgument(fmt::format(
            "chat template variables: integer {} does not fit into 64 bits", json.dump()));
      }
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return make_text(json.get<std::string>());
    case Json::value_t::array: {
      Sequence sequence;
      for (const auto& item : json) {
        sequence.items.push_back(from_json(item, limits, depth + 1));
        sequence.extent.add(extent_of(sequence.items.back()));
      }
      return Value(std::make_shared<const Sequence>(std::move(sequence)));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.set(make_text(key), from_json(item, limits, depth + 1));
      }
      return Value(std::make_shared<const Dict>(std::move(dict)));
    }
    default:
      throw InvalidArgument("chat template variables: not a JSON value");
  }
}

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

// Like transformers, fills `reasoning_content` and `thinking` from the first of
// `reasoning_content`, `thinking` and `reasoning` that the message has. Source: transformers 5.23,
// utils/chat_template_utils.py, _alias_reasoning_fields.
Json alias_reasoning(const Json& message) {
  static constexpr std::array<const char*, 3> kNames = {
      "reasoning_content", "thinking", "reasoning"};
  for (const char* name : kNames) {
    const auto reasoning = message.find(name);
    if (reasoning == message.end() || reasoning->is_null()) continue;
    Json aliased = Json::object();
    aliased["thinking"] = *reasoning;
    for (const auto& [key, value] : message.items()) aliased[key] = value;
    aliased["reasoning_content"] = *reasoning;
    return aliased;
  }
  return message;
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, const Limits& limits) {
  return ChatTemplate(
      std::make_shared<const Parsed>(Parsed{parse_template(source, limits), limits}));
}

std::string ChatTemplate::render_variables(const Json& variables,
                                           const std::optional<std::tm>& now,
                                           const WorkLimit& work) const {
  if (!variables.is_object()) {
    throw InvalidArgument("chat template variables: expected a JSON object");
  }
  Sandbox sandbox(parsed_->limits, now ? *now : local_now(), work);
  try {
    Evaluator evaluator(parsed_->tree, sandbox);
    for (const auto& [name, value] : variables.items()) {
      const auto id = parsed_->tree.find_name(name);
      if (id) evaluator.define(*id, from_json(value, parsed_->limits, 1));
    }
    return evaluator.run();
  } catch (const std::bad_alloc&) {
    sandbox.fail_limit("out of memory");
  } catch (const std::length_error&) {
    sandbox.fail_limit("a value is too large");
  }
}

std::string ChatTemplate::render(const Json& messages, const RenderOptions& options) const {
  if (!messages.is_array()) throw InvalidArgument("messages: expected an array of objects");
  if (!options.extra.is_object()) {
    throw InvalidArgument("chat template arguments: expected an object");
  }
  if (options.extra.contains("messages")) {
    throw InvalidArgument("chat template arguments: 'messages' is reserved");
  }
  Json variables = Json::object();
  Json& conversation = variables["messages"] = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object()) throw InvalidArgument("messages: each message must be an object");
    conversation.push_back(alias_reasoning(message));
  }
  variables["tools"] = options.tools.value_or(Json());
  variables["documents"] = options.documents.value_or(Json());
  variables["add_generation_prompt"] = options.add_generation_prompt;
  if (options.bos_token) variables["bos_token"] = *options.bos_token;
  if (options.eos_token) variables["eos_token"] = *options.eos_token;
  for (const auto& [name, value] : options.extra.items()) variables[name] = value;
  return render_variables(variables, options.now, options.work);
}

bool ChatTemplate::mentions(std::string_view name) const {
  return parsed_->tree.find_name(name).has_value();
}

}  // namespace reprise::chat_template
