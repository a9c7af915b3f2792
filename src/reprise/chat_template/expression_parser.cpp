#include "reprise/chat_template/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace reprise::chat_template {

using namespace ast;  // NOLINT: the grammar reads better without prefixes

namespace {

// Finds the deepest direct child of a node.
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
    add(arguments.positional, arguments.named, arguments.star, arguments.double_star);
  }
  template <typename... Children>
  void add(const Children&... children)
    requires(sizeof...(children) > 1)
  {
    (add(children), ...);
  }

  void operator()(const Constant&) {}
  void operator()(const Name&) {}
  void operator()(const ListLiteral& node) { add(node.items); }
  void operator()(const DictLiteral& node) {
    add(node.entries);
    for (const auto& entry : node.entries) add(entry.first);
  }
  void operator()(const Unary& node) { add(node.operand); }
  void operator()(const Chain& node) { add(node.first, node.rest); }
  void operator()(const Logical& node) { add(node.operands); }
  void operator()(const ast::Compare& node) { add(node.first, node.rest); }
  void operator()(const Concat& node) { add(node.operands); }
  void operator()(const Conditional& node) { add(node.test, node.value, node.otherwise); }
  void operator()(const Attribute& node) { add(node.object); }
  void operator()(const Subscript& node) { add(node.object, node.key); }
  void operator()(const ast::Slice& node) { add(node.object, node.start, node.stop, node.step); }
  void operator()(const Call& node) { add(node.callee, node.arguments); }
  void operator()(const Filter& node) { add(node.subject, node.arguments); }
  void operator()(const Test& node) { add(node.subject, node.arguments); }
};

template <typename Op>
std::optional<Op> take_one_of(TokenStream& tokens,
                              std::initializer_list<std::pair<std::string_view, Op>> symbols) {
  for (const auto& [symbol, op] : symbols) {
    if (tokens.take_op(symbol)) return op;
  }
  return std::nullopt;
}

}  // namespace

ExpressionParser::ExpressionParser(std::vector<Token> tokens, const Limits& limits)
    : TokenStream(std::move(tokens)), limits_(limits) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) (void)intern(name);
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

ExprPtr ExpressionParser::make(Position at, decltype(Expr::node) node) {
  DepthOf depth;
  std::visit(depth, node);
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
  // In "value if condition", the condition comes after the value. So while this parser reads the
  // value, it does not know yet that the value is soft (see soften()). jinja2 knows it; the only
  // difference is the time at which an unknown filter is reported.
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

template <typename Node, typename Take>
ExprPtr ExpressionParser::parse_joined(Node node, Take take, Operand parse_operand) {
  const Position at = current().at;
  node.operands.push_back((this->*parse_operand)());
  while (take()) node.operands.push_back((this->*parse_operand)());
  if (node.operands.size() == 1) return std::move(node.operands.front());
  return make(at, std::move(node));
}

ExprPtr ExpressionParser::parse_or() {
  return parse_joined(
      Logical{.is_and = false, .operands = {}},
      [this] { return take_name("or"); },
      &ExpressionParser::parse_and);
}

ExprPtr ExpressionParser::parse_and() {
  return parse_joined(
      Logical{.is_and = true, .operands = {}},
      [this] { return take_name("and"); },
      &ExpressionParser::parse_not);
}

ExprPtr ExpressionParser::parse_not() {
  const Position at = current().at;
  if (!take_name("not")) return parse_compare();
  const auto level = enter();
  return make(at, Unary{.op = UnaryOp::logical_not, .operand = parse_not()});
}

template <typename Node, typename Take>
ExprPtr ExpressionParser::parse_chain(Take take, Operand parse_operand) {
  const Position at = current().at;
  ExprPtr first = (this->*parse_operand)();
  Node node;
  while (const auto op = take()) node.rest.emplace_back(*op, (this->*parse_operand)());
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(at, std::move(node));
}

std::optional<Comparison> ExpressionParser::take_comparison() {
  if (take_name("in")) return Comparison::in;
  if (current().is_name("not") && look_ahead().is_name("in")) {
    advance();
    advance();
    return Comparison::not_in;
  }
  return take_one_of<Comparison>(*this,
                                 {{"==", Comparison::equal},
                                  {"!=", Comparison::not_equal},
                                  {"<", Comparison::less},
                                  {"<=", Comparison::less_equal},
                                  {">", Comparison::greater},
                                  {">=", Comparison::greater_equal}});
}

ExprPtr ExpressionParser::parse_compare() {
  return parse_chain<ast::Compare>([this] { return take_comparison(); },
                                   &ExpressionParser::parse_sum);
}

ExprPtr ExpressionParser::parse_sum() {
  const auto take = [this] {
    return take_one_of<BinaryOp>(*this, {{"+", BinaryOp::add}, {"-", BinaryOp::subtract}});
  };
  return parse_chain<Chain>(take, &ExpressionParser::parse_concat);
}

ExprPtr ExpressionParser::parse_concat() {
  return parse_joined(Concat{}, [this] { return take_op("~"); }, &ExpressionParser::parse_product);
}

ExprPtr ExpressionParser::parse_product() {
  const auto take = [this] {
    return take_one_of<BinaryOp>(*this,
                                 {{"*", BinaryOp::multiply},
                                  {"/", BinaryOp::divide},
                                  {"//", BinaryOp::floor_divide},
                                  {"%", BinaryOp::modulo}});
  };
  return parse_chain<Chain>(take, &ExpressionParser::parse_power);
}

ExprPtr ExpressionParser::parse_power() {
  const auto take = [this] { return take_one_of<BinaryOp>(*this, {{"**", BinaryOp::power}}); };
  return parse_chain<Chain>(take, &ExpressionParser::parse_filtered_unary);
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

// ---- filters and tests ----

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
