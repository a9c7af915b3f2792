#include "reprise/chat_template/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace reprise::chat_template {

using namespace ast;  // NOLINT: the grammar reads better without prefixes

namespace {

// What the depth of a node is made of: every direct child.
struct DepthOf {
  int deepest = 0;

  void add(const ExprPtr& child) {
    if (child) deepest = std::max(deepest, child->depth);
  }
  void add(const Exprs& children) {
    for (const auto& child : children) add(child);
  }
  template <typename Key>
  void add(const std::vector<std::pair<Key, ExprPtr>>& children) {
    for (const auto& child : children) add(child.second);
  }
  void add(const Arguments& arguments) {
    add(arguments.positional);
    add(arguments.named);
    add(arguments.star);
    add(arguments.double_star);
  }

  void operator()(const Constant&) {}
  void operator()(const Name&) {}
  void operator()(const ListLiteral& node) { add(node.items); }
  void operator()(const DictLiteral& node) {
    add(node.entries);
    for (const auto& entry : node.entries) add(entry.first);
  }
  void operator()(const Unary& node) { add(node.operand); }
  void operator()(const Chain& node) {
    add(node.first);
    add(node.rest);
  }
  void operator()(const Logical& node) { add(node.operands); }
  void operator()(const ast::Compare& node) {
    add(node.first);
    add(node.rest);
  }
  void operator()(const Concat& node) { add(node.operands); }
  void operator()(const Conditional& node) {
    add(node.test);
    add(node.value);
    add(node.otherwise);
  }
  void operator()(const Attribute& node) { add(node.object); }
  void operator()(const Subscript& node) {
    add(node.object);
    add(node.key);
  }
  void operator()(const ast::Slice& node) {
    add(node.object);
    add(node.start);
    add(node.stop);
    add(node.step);
  }
  void operator()(const Call& node) {
    add(node.callee);
    add(node.arguments);
  }
  void operator()(const Filter& node) {
    add(node.subject);
    add(node.arguments);
  }
  void operator()(const Test& node) {
    add(node.subject);
    add(node.arguments);
  }
};

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "template data";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::end:
      return "end of template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

ExpressionParser::ExpressionParser(std::vector<Token> tokens, const Limits& limits)
    : tokens_(std::move(tokens)), limits_(limits) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) (void)intern(name);
}

// ---- tokens ----

const Token& ExpressionParser::look_ahead() const {
  return tokens_[std::min(next_ + 1, tokens_.size() - 1)];
}

void ExpressionParser::advance() { next_ = std::min(next_ + 1, tokens_.size() - 1); }

bool ExpressionParser::take_op(std::string_view symbol) {
  if (!current().is_op(symbol)) return false;
  advance();
  return true;
}

bool ExpressionParser::take_name(std::string_view word) {
  if (!current().is_name(word)) return false;
  advance();
  return true;
}

Token ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    fail(fmt::format("expected {}, got {}", what, describe(current())));
  }
  Token token = current();
  advance();
  return token;
}

void ExpressionParser::expect_op(std::string_view symbol) {
  if (!take_op(symbol)) fail(fmt::format("expected '{}', got {}", symbol, describe(current())));
}

void ExpressionParser::expect_name(std::string_view word) {
  if (!take_name(word)) fail(fmt::format("expected '{}', got {}", word, describe(current())));
}

void ExpressionParser::fail(std::string_view message) const {
  throw TemplateError(TemplateError::Cause::syntax, current().at, message);
}

NameId ExpressionParser::intern(const std::string& name) {
  const auto [entry, is_new] = name_ids_.try_emplace(name, static_cast<NameId>(names_.size()));
  if (is_new) names_.push_back(name);
  return entry->second;
}

// ---- depth ----

void ExpressionParser::check_depth(int depth) const {
  if (depth > limits_.max_parse_depth) {
    throw TemplateError(TemplateError::Cause::limit, current().at, "the template nests too deep");
  }
}

ExpressionParser::Counter ExpressionParser::enter() {
  check_depth(depth_ + 1);
  return Counter(depth_);
}

template <typename Node>
ExprPtr ExpressionParser::make(Position at, Node node) {
  DepthOf depth;
  depth(node);
  check_depth(depth.deepest + 1);
  auto expr = std::make_unique<Expr>();
  expr->node = std::move(node);
  expr->at = at;
  expr->depth = depth.deepest + 1;
  return expr;
}

// ---- operators, loosest first ----

ExprPtr ExpressionParser::parse_expression(bool with_conditional) {
  const auto level = enter();
  return with_conditional ? parse_conditional() : parse_or();
}

ExprPtr ExpressionParser::parse_conditional() {
  const Position at = current().at;
  // The condition comes after the value, so whether this is soft is known too late for jinja2's
  // exact rule; its consequence is only when an unknown filter is reported.
  ExprPtr value = parse_or();
  while (take_name("if")) {
    const auto soft = soften();
    Conditional node;
    node.test = parse_or();
    node.value = std::move(value);
    if (take_name("else")) {
      const auto level = enter();
      node.otherwise = parse_conditional();
    }
    value = make(at, std::move(node));
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  const Position at = current().at;
  ExprPtr first = parse_and();
  if (!current().is_name("or")) return first;
  Logical node{.is_and = false, .operands = {}};
  node.operands.push_back(std::move(first));
  while (take_name("or")) node.operands.push_back(parse_and());
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_and() {
  const Position at = current().at;
  ExprPtr first = parse_not();
  if (!current().is_name("and")) return first;
  Logical node{.is_and = true, .operands = {}};
  node.operands.push_back(std::move(first));
  while (take_name("and")) node.operands.push_back(parse_not());
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_not() {
  const Position at = current().at;
  if (!take_name("not")) return parse_compare();
  const auto level = enter();
  return make(at, Unary{.op = UnaryOp::logical_not, .operand = parse_not()});
}

ExprPtr ExpressionParser::parse_compare() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kSymbols = {{
      {"==", Comparison::equal},
      {"!=", Comparison::not_equal},
      {"<", Comparison::less},
      {"<=", Comparison::less_equal},
      {">", Comparison::greater},
      {">=", Comparison::greater_equal},
  }};
  const Position at = current().at;
  ExprPtr first = parse_sum();
  ast::Compare node;
  while (true) {
    if (current().kind == TokenKind::op) {
      const auto hit = std::find_if(kSymbols.begin(), kSymbols.end(), [&](const auto& s) {
        return current().is_op(s.first);
      });
      if (hit == kSymbols.end()) break;
      advance();
      node.rest.emplace_back(hit->second, parse_sum());
    } else if (take_name("in")) {
      node.rest.emplace_back(Comparison::in, parse_sum());
    } else if (current().is_name("not") && look_ahead().is_name("in")) {
      advance();
      advance();
      node.rest.emplace_back(Comparison::not_in, parse_sum());
    } else {
      break;
    }
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_sum() {
  const Position at = current().at;
  ExprPtr first = parse_concat();
  Chain node;
  while (current().is_op("+") || current().is_op("-")) {
    const BinaryOp op = current().is_op("+") ? BinaryOp::add : BinaryOp::subtract;
    advance();
    node.rest.emplace_back(op, parse_concat());
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_concat() {
  const Position at = current().at;
  ExprPtr first = parse_product();
  if (!current().is_op("~")) return first;
  Concat node;
  node.operands.push_back(std::move(first));
  while (take_op("~")) node.operands.push_back(parse_product());
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_product() {
  static constexpr std::array<std::pair<std::string_view, BinaryOp>, 4> kSymbols = {{
      {"*", BinaryOp::multiply},
      {"/", BinaryOp::divide},
      {"//", BinaryOp::floor_divide},
      {"%", BinaryOp::modulo},
  }};
  const Position at = current().at;
  ExprPtr first = parse_power();
  Chain node;
  while (true) {
    const auto hit = std::find_if(
        kSymbols.begin(), kSymbols.end(), [&](const auto& s) { return current().is_op(s.first); });
    if (hit == kSymbols.end()) break;
    advance();
    node.rest.emplace_back(hit->second, parse_power());
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_power() {
  const Position at = current().at;
  ExprPtr first = parse_unary();
  Chain node;
  while (take_op("**")) node.rest.emplace_back(BinaryOp::power, parse_unary());
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const auto level = enter();
  const Position at = current().at;
  ExprPtr node;
  if (take_op("-")) {
    node = make(at, Unary{.op = UnaryOp::negate, .operand = parse_unary(false)});
  } else if (take_op("+")) {
    node = make(at, Unary{.op = UnaryOp::posit, .operand = parse_unary(false)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

// ---- primaries ----

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  const Position at = token.at;
  switch (token.kind) {
    case TokenKind::name:
      return parse_name();
    case TokenKind::string: {
      std::string text;
      while (current().kind == TokenKind::string) {  // "a" "b" is "ab"
        text += current().text;
        advance();
      }
      return make(at, Constant{make_text(std::move(text))});
    }
    case TokenKind::integer: {
      const Value value(token.integer);
      advance();
      return make(at, Constant{value});
    }
    case TokenKind::floating: {
      const Value value(token.floating);
      advance();
      return make(at, Constant{value});
    }
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

ExprPtr ExpressionParser::parse_name() {
  const Position at = current().at;
  const std::string name = current().text;
  advance();
  if (name == "true" || name == "True") return make(at, Constant{Value(true)});
  if (name == "false" || name == "False") return make(at, Constant{Value(false)});
  if (name == "none" || name == "None") return make(at, Constant{Value()});
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

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr subject) {
  while (true) {
    if (current().is_op("|")) {
      subject = parse_filters(std::move(subject), /*starts_inline=*/false);
    } else if (current().is_name("is")) {
      subject = parse_test(std::move(subject));
    } else if (current().is_op("(")) {
      subject = parse_call(std::move(subject));
    } else {
      return subject;
    }
  }
}

std::string ExpressionParser::parse_dotted_name(std::string_view what) {
  std::string name = expect(TokenKind::name, what).text;
  while (take_op(".")) name += "." + expect(TokenKind::name, what).text;
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr subject, bool starts_inline) {
  while (starts_inline || current().is_op("|")) {
    if (!std::exchange(starts_inline, false)) advance();
    const Position at = current().at;
    Filter node;
    node.name = parse_dotted_name("filter name");
    node.filter = find_filter(node.name);
    if (node.filter == nullptr && soft_levels_ == 0) fail(no_filter_message(node.name));
    node.subject = std::move(subject);
    if (current().is_op("(")) node.arguments = parse_arguments();
    subject = make(at, std::move(node));
  }
  return subject;
}

ExprPtr ExpressionParser::parse_test(ExprPtr subject) {
  const Position at = current().at;
  advance();  // is
  const bool is_negated = take_name("not");
  Test node;
  node.name = parse_dotted_name("test name");
  node.test = find_test(node.name);
  if (node.test == nullptr && soft_levels_ == 0)
    fail(fmt::format("No test named '{}'.", node.name));
  node.subject = std::move(subject);
  const Token& token = current();
  const bool is_operand = token.kind == TokenKind::name || token.kind == TokenKind::string ||
                          token.kind == TokenKind::integer || token.kind == TokenKind::floating ||
                          token.is_op("[") || token.is_op("{");
  const bool is_keyword = token.is_name("else") || token.is_name("or") || token.is_name("and");
  if (token.is_op("(")) {
    node.arguments = parse_arguments();
  } else if (is_operand && !is_keyword) {  // x is divisibleby 3
    if (token.is_name("is")) fail("You cannot chain multiple tests with is");
    const auto level = enter();
    node.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExprPtr test = make(at, std::move(node));
  if (!is_negated) return test;
  return make(at, Unary{.op = UnaryOp::logical_not, .operand = std::move(test)});
}

// ---- assignment targets ----

Target ExpressionParser::parse_target(TargetOptions options) {
  const auto at_end = [&] {
    return current().kind == TokenKind::block_end || current().is_op(")") ||
           (options.ends_with_in && current().is_name("in"));
  };
  Target tuple;
  tuple.is_tuple = true;
  tuple.at = current().at;
  bool has_comma = false;
  while (true) {
    if (!tuple.parts.empty()) expect_op(",");
    if (at_end()) break;
    tuple.parts.push_back(parse_single_target(options));
    if (!current().is_op(",")) break;
    has_comma = true;
  }
  if (tuple.parts.empty()) fail(fmt::format("Expected an expression, got {}", describe(current())));
  if (!has_comma) {
    Target only = std::move(tuple.parts.front());
    return only;
  }
  return tuple;
}

Target ExpressionParser::parse_single_target(TargetOptions options) {
  const auto level = enter();
  if (take_op("(")) {
    Target inner = parse_target({.with_namespace = false, .ends_with_in = false});
    expect_op(")");
    return inner;
  }
  Target target;
  target.at = current().at;
  const std::string name = expect(TokenKind::name, "name").text;
  static constexpr std::array<std::string_view, 6> kConstants = {
      "true", "false", "none", "True", "False", "None"};
  if (std::find(kConstants.begin(), kConstants.end(), name) != kConstants.end()) {
    fail(fmt::format("can't assign to '{}'", name));
  }
  target.name = intern(name);
  if (options.with_namespace && take_op(".")) {
    target.attribute = expect(TokenKind::name, "attribute name").text;
  }
  return target;
}

}  // namespace reprise::chat_template
