#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/chat_template/ast.h"
#include "reprise/chat_template/limits.h"
#include "reprise/chat_template/token_stream.h"

namespace reprise::chat_template {

/// Names and the grammar of expressions, by recursive descent. Two limits bound the depth: enter()
/// limits the recursion of the parser, and each node's depth limits the chains that loops build
/// (x|a|b|c, x.a.b.c).
class ExpressionParser : protected TokenStream {
 public:
  ExpressionParser(std::vector<Token> tokens, const Limits& limits);

 protected:
  struct TupleOptions {
    bool with_conditional = true;
    bool is_parenthesized = false;  // () is an empty tuple
    bool ends_with_recursive = false;
  };
  struct TargetOptions {
    bool with_namespace = false;  // ns.x may be assigned
    bool ends_with_in = false;
  };
  /// Special names that the body of the current macro uses.
  struct SpecialNames {
    bool caller = false, varargs = false, kwargs = false;
  };

  // ---- names ----
  ast::NameId intern(const std::string& name);
  std::vector<std::string> take_names() { return std::move(names_); }
  SpecialNames& special_names() { return special_names_; }

  // ---- depth ----
  class Counter {
   public:
    explicit Counter(int& count) : count_(count) { ++count_; }
    ~Counter() { --count_; }
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;

   private:
    int& count_;
  };
  /// Goes one level deeper while the result lives.
  [[nodiscard]] Counter enter();
  /// While the result lives, an unknown filter or test is an error only when it is evaluated.
  [[nodiscard]] Counter soften() { return Counter(soft_levels_); }

  // ---- grammar ----
  ast::ExprPtr parse_expression(bool with_conditional = true);
  ast::ExprPtr parse_tuple(TupleOptions options);
  ast::Target parse_target(TargetOptions options);
  /// Parses the filters after `subject`; with `starts_inline` the first one has no "|". Returns
  /// `subject` when there are none.
  ast::ExprPtr parse_filters(ast::ExprPtr subject, bool starts_inline);

 private:
  ast::ExprPtr make(Position at, decltype(ast::Expr::node) node);
  void check_depth(int depth) const;

  using Operand = ast::ExprPtr (ExpressionParser::*)();
  /// Parses operand (operator operand)*. Without an operator the result is the operand itself, else
  /// a Node. `take` consumes an operator and returns it.
  template <typename Node, typename Take>
  ast::ExprPtr parse_chain(Take take, Operand parse_operand);
  /// Parses operand (separator operand)*. Without a separator the result is the operand itself,
  /// else `node`. `take` consumes a separator.
  template <typename Node, typename Take>
  ast::ExprPtr parse_joined(Node node, Take take, Operand parse_operand);
  std::optional<Comparison> take_comparison();

  ast::ExprPtr parse_conditional();
  ast::ExprPtr parse_or();
  ast::ExprPtr parse_and();
  ast::ExprPtr parse_not();
  ast::ExprPtr parse_compare();
  ast::ExprPtr parse_sum();
  ast::ExprPtr parse_concat();
  ast::ExprPtr parse_product();
  ast::ExprPtr parse_power();
  ast::ExprPtr parse_unary(bool with_filter);
  ast::ExprPtr parse_filtered_unary() { return parse_unary(/*with_filter=*/true); }
  ast::ExprPtr parse_primary();
  ast::ExprPtr parse_constant(Value value);
  ast::ExprPtr parse_name();
  ast::ExprPtr parse_list();
  ast::ExprPtr parse_dict();
  ast::ExprPtr parse_postfix(ast::ExprPtr object);
  ast::ExprPtr parse_dot(ast::ExprPtr object);
  ast::ExprPtr parse_brackets(ast::ExprPtr object);
  ast::ExprPtr parse_call(ast::ExprPtr callee);
  ast::ExprPtr parse_filters_and_tests(ast::ExprPtr subject);
  ast::ExprPtr parse_test(ast::ExprPtr subject);
  ast::Arguments parse_arguments();
  ast::Target parse_single_target(TargetOptions options);
  std::string parse_dotted_name(std::string_view what);

  Limits limits_;
  int depth_ = 0;
  int soft_levels_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, ast::NameId> name_ids_;
  SpecialNames special_names_;
};

}  // namespace reprise::chat_template
