#include <fmt/format.h>

#include <algorithm>

#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/evaluator.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"

/// The part of Evaluator that gives expressions their values.
namespace reprise::chat_template {

using namespace ast;  // NOLINT: the walk names every node type

Value Evaluator::eval(const Expr& expr) {
  const auto level = sandbox_.enter_eval();
  sandbox_.charge();
  sandbox_.at = expr.at;
  return std::visit([&](const auto& node) { return eval_node(node, expr.at); }, expr.node);
}

Value Evaluator::eval_or_none(const ExprPtr& expr) { return expr ? eval(*expr) : Value(); }

Value Evaluator::eval_node(const Name& node, Position) {
  if (const Value* value = frame_->find(node.id)) return *value;
  const std::string& name = tree_.names[node.id];
  if (const Builtin* global = find_global(name)) {
    return sandbox_.callable({.name = name, .builtin = global, .self = Value(), .macro = nullptr});
  }
  return Sandbox::undefined(fmt::format("'{}' is undefined", name));
}

Value Evaluator::eval_node(const ListLiteral& node, Position) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(eval(*item));
  return node.is_tuple ? sandbox_.tuple(std::move(items)) : sandbox_.list(std::move(items));
}

Value Evaluator::eval_node(const DictLiteral& node, Position at) {
  Dict dict;
  for (const auto& [key_expr, value_expr] : node.entries) {
    Value key = eval(*key_expr);
    Value value = eval(*value_expr);
    sandbox_.at = at;
    if (!is_hashable(key)) sandbox_.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    sandbox_.charge_walk(key);
    dict.set(std::move(key), std::move(value));
  }
  return sandbox_.dict(std::move(dict));
}

Value Evaluator::eval_node(const Unary& node, Position at) {
  const Value operand = eval(*node.operand);
  sandbox_.at = at;
  switch (node.op) {
    case UnaryOp::negate:
      return negate(sandbox_, operand);
    case UnaryOp::posit:
      return posit(sandbox_, operand);
    case UnaryOp::logical_not:
      break;
  }
  return Value(!is_truthy(operand));
}

Value Evaluator::eval_node(const Chain& node, Position at) {
  Value result = eval(*node.first);
  for (const auto& [op, operand_expr] : node.rest) {
    const Value operand = eval(*operand_expr);
    sandbox_.at = at;
    result = binary(sandbox_, op, result, operand);
  }
  return result;
}

Value Evaluator::eval_node(const Logical& node, Position) {
  Value value;
  for (const auto& operand : node.operands) {
    value = eval(*operand);
    if (is_truthy(value) != node.is_and) break;
  }
  return value;
}

Value Evaluator::eval_node(const ast::Compare& node, Position at) {
  Value left = eval(*node.first);
  for (const auto& [comparison, operand] : node.rest) {
    Value right = eval(*operand);
    sandbox_.at = at;
    if (!compare(sandbox_, comparison, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::eval_node(const Concat& node, Position) {
  std::string text;
  for (const auto& operand : node.operands) {
    const Value value = eval(*operand);
    if (const Text* part = value.text()) {
      sandbox_.check_text_size(text.size() + part->bytes.size());
      text += part->bytes;
    } else {
      text += to_str(sandbox_, value);
    }
  }
  return sandbox_.text(std::move(text));
}

Value Evaluator::eval_node(const Conditional& node, Position) {
  if (is_truthy(eval(*node.test))) return eval(*node.value);
  if (node.otherwise) return eval(*node.otherwise);
  return Sandbox::undefined(
      "the inline if-expression evaluated to false and no else section was defined.");
}

Value Evaluator::eval_node(const Attribute& node, Position at) {
  const Value object = eval(*node.object);
  sandbox_.at = at;
  return attribute(sandbox_, object, node.name);
}

Value Evaluator::eval_node(const Subscript& node, Position at) {
  const Value object = eval(*node.object);
  const Value key = eval(*node.key);
  sandbox_.at = at;
  return subscript(sandbox_, object, key);
}

Value Evaluator::eval_node(const ast::Slice& node, Position at) {
  const Value object = eval(*node.object);
  const Value start = eval_or_none(node.start);
  const Value stop = eval_or_none(node.stop);
  const Value step = eval_or_none(node.step);
  sandbox_.at = at;
  return slice(sandbox_, object, start, stop, step);
}

Value Evaluator::eval_node(const ast::Call& node, Position at) {
  const Value callee = eval(*node.callee);
  return call_value(callee, eval_arguments(node.arguments), at);
}

Value Evaluator::eval_node(const Filter& node, Position at) {
  const Value subject = node.subject ? eval(*node.subject) : block_text_;
  const Args args = eval_arguments(node.arguments);
  sandbox_.at = at;
  if (node.filter == nullptr) sandbox_.fail(no_filter_message(node.name));
  return call(sandbox_, *node.filter, subject, args);
}

Value Evaluator::eval_node(const Test& node, Position at) {
  const Value subject = eval(*node.subject);
  const Args args = eval_arguments(node.arguments);
  sandbox_.at = at;
  if (node.test == nullptr) sandbox_.fail(fmt::format("No test named '{}'.", node.name));
  return call(sandbox_, *node.test, subject, args);
}

Args Evaluator::eval_arguments(const Arguments& arguments) {
  Args args;
  for (const auto& argument : arguments.positional) args.positional.push_back(eval(*argument));
  for (const auto& [name, value] : arguments.named) args.named.emplace_back(name, eval(*value));
  if (arguments.star) {
    for (Value& value : iterate(sandbox_, eval(*arguments.star))) {
      args.positional.push_back(std::move(value));
    }
  }
  if (arguments.double_star) {
    const Value more = eval(*arguments.double_star);
    if (more.dict() == nullptr) sandbox_.fail("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict()->entries()) {
      const std::string& name = require_text(sandbox_, key, "keywords").bytes;
      const bool is_repeated = std::any_of(
          args.named.begin(), args.named.end(), [&](const auto& n) { return n.first == name; });
      if (is_repeated) sandbox_.fail(fmt::format("got multiple values for argument '{}'", name));
      sandbox_.charge(1 + args.named.size() / 8);
      args.named.emplace_back(name, value);
    }
  }
  return args;
}

}  // namespace reprise::chat_template
