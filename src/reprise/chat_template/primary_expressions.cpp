#include <fmt/format.h>

#include <algorithm>

#include "reprise/chat_template/expression_parser.h"

/// The part of ExpressionParser that binds tighter than operators: literals, names, and the
/// attributes, brackets and calls after them.
namespace reprise::chat_template {

using namespace ast;  // NOLINT: the grammar reads better without prefixes

// ---- primaries ----

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name:
      return parse_name();
    case TokenKind::string: {
      const Position at = token.at;
      std::string text;
      while (current().kind == TokenKind::string) {  // "a" "b" is "ab"
        text += current().text;
        advance();
      }
      return make(at, Constant{make_text(std::move(text))});
    }
    case TokenKind::integer:
      return parse_constant(Value(token.integer));
    case TokenKind::floating:
      return parse_constant(Value(token.floating));
    default:
      break;
  }
  if (take_op("(")) {
    TupleOptions options;
    options.is_parenthesized = true;
    ExprPtr inner = parse_tuple(options);
    expect_op(")");
    return inner;
  }
  if (token.is_op("[")) return parse_list();
  if (token.is_op("{")) return parse_dict();
  fail(fmt::format("unexpected {}", describe(token)));
}

ExprPtr ExpressionParser::parse_constant(Value value) {
  const Position at = current().at;
  advance();
  return make(at, Constant{std::move(value)});
}

ExprPtr ExpressionParser::parse_name() {
  const Position at = current().at;
  const std::string name = current().text;
  if (name == "true" || name == "True") return parse_constant(Value(true));
  if (name == "false" || name == "False") return parse_constant(Value(false));
  if (name == "none" || name == "None") return parse_constant(Value());
  advance();
  const NameId id = intern(name);
  special_names_.caller |= id == kCaller;
  special_names_.varargs |= id == kVarargs;
  special_names_.kwargs |= id == kKwargs;
  return make(at, Name{id});
}

ExprPtr ExpressionParser::parse_list() {
  const Position at = current().at;
  expect_op("[");
  ListLiteral node{.items = {}, .is_tuple = false};
  while (!current().is_op("]")) {
    if (!node.items.empty()) expect_op(",");
    if (current().is_op("]")) break;
    node.items.push_back(parse_expression());
  }
  expect_op("]");
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_dict() {
  const Position at = current().at;
  expect_op("{");
  DictLiteral node;
  while (!current().is_op("}")) {
    if (!node.entries.empty()) expect_op(",");
    if (current().is_op("}")) break;
    ExprPtr key = parse_expression();
    expect_op(":");
    node.entries.emplace_back(std::move(key), parse_expression());
  }
  expect_op("}");
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_tuple(TupleOptions options) {
  const Position at = current().at;
  const auto at_end = [&] {
    return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
           current().is_op(")") || (options.ends_with_recursive && current().is_name("recursive"));
  };
  ListLiteral node{.items = {}, .is_tuple = true};
  bool has_comma = false;
  while (true) {
    if (!node.items.empty()) expect_op(",");
    if (at_end()) break;
    node.items.push_back(parse_expression(options.with_conditional));
    if (!current().is_op(",")) break;
    has_comma = true;
  }
  if (!has_comma) {
    if (!node.items.empty()) return std::move(node.items.front());
    if (!options.is_parenthesized) {
      fail(fmt::format("Expected an expression, got {}", describe(current())));
    }
  }
  return make(at, std::move(node));
}

// ---- what follows a primary ----

ExprPtr ExpressionParser::parse_postfix(ExprPtr object) {
  while (true) {
    if (current().is_op(".")) {
      object = parse_dot(std::move(object));
    } else if (current().is_op("[")) {
      object = parse_brackets(std::move(object));
    } else if (current().is_op("(")) {
      object = parse_call(std::move(object));
    } else {
      return object;
    }
  }
}

ExprPtr ExpressionParser::parse_dot(ExprPtr object) {
  const Position at = current().at;
  advance();
  const Token token = current();
  if (token.kind == TokenKind::name) {
    advance();
    return make(at, Attribute{.object = std::move(object), .name = token.text});
  }
  if (token.kind != TokenKind::integer) fail("expected name or number");
  advance();
  ExprPtr key = make(token.at, Constant{Value(token.integer)});
  return make(at, Subscript{.object = std::move(object), .key = std::move(key)});
}

ExprPtr ExpressionParser::parse_brackets(ExprPtr object) {
  const Position at = current().at;
  expect_op("[");
  ast::Slice slice;
  ExprPtr key;
  const auto at_part_end = [&] { return current().is_op(":") || current().is_op("]"); };
  if (!at_part_end()) key = parse_expression();
  if (key && current().is_op(",")) {  // x[a, b] is x[(a, b)]
    ListLiteral tuple{.items = {}, .is_tuple = true};
    tuple.items.push_back(std::move(key));
    while (take_op(",")) {
      if (current().is_op(":")) fail("slices in a tuple of indices are not supported");
      tuple.items.push_back(parse_expression());
    }
    key = make(at, std::move(tuple));
  }
  if (take_op("]")) {
    if (!key) fail("expected subscript expression");
    return make(at, Subscript{.object = std::move(object), .key = std::move(key)});
  }
  slice.object = std::move(object);
  slice.start = std::move(key);
  expect_op(":");
  if (!at_part_end()) slice.stop = parse_expression();
  if (take_op(":") && !at_part_end()) slice.step = parse_expression();
  expect_op("]");
  return make(at, std::move(slice));
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  const Position at = current().at;
  Arguments arguments = parse_arguments();
  return make(at, Call{.callee = std::move(callee), .arguments = std::move(arguments)});
}

Arguments ExpressionParser::parse_arguments() {
  expect_op("(");
  Arguments arguments;
  const auto ensure = [&](bool is_valid) {
    if (!is_valid) fail("invalid syntax for function call expression");
  };
  bool needs_comma = false;
  while (!current().is_op(")")) {
    if (std::exchange(needs_comma, true)) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    if (take_op("*")) {
      ensure(!arguments.star && !arguments.double_star);
      arguments.star = parse_expression();
    } else if (take_op("**")) {
      ensure(!arguments.double_star);
      arguments.double_star = parse_expression();
    } else if (current().kind == TokenKind::name && look_ahead().is_op("=")) {
      ensure(!arguments.double_star);
      std::string name = current().text;
      const bool is_repeated = std::any_of(arguments.named.begin(),
                                           arguments.named.end(),
                                           [&](const auto& named) { return named.first == name; });
      if (is_repeated) fail(fmt::format("keyword argument repeated: {}", name));
      advance();
      advance();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return arguments;
}

}  // namespace reprise::chat_template
