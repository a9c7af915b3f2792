#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/chat_template/ast.h"
#include "reprise/chat_template/lexer.h"
#include "reprise/chat_template/limits.h"

namespace reprise::chat_template {

/// Token stream, names and the expression grammar, by recursive descent. Depth is bounded twice: by
/// enter() while descending, and per node for what loops build (x|a|b|c, x.a.b.c).
class ExpressionParser {
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
  /// Names whose mention in a macro body makes calls provide them.
  struct SpecialNames {
    bool caller = false, varargs = false, kwargs = false;
  };

  // ---- tokens ----
  [[nodiscard]] const Token& current() const { return tokens_[next_]; }
  [[nodiscard]] const Token& look_ahead() const;
  void advance();
  bool take_op(std::string_view symbol);
  bool take_name(std::string_view word);
  Token expect(TokenKind kind, std::string_view what);
  void expect_op(std::string_view symbol);
  void expect_name(std::string_view word);
  [[noreturn]] void fail(std::string_view message) const;

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
  /// One level deeper, for as long as the result lives.
  [[nodiscard]] Counter enter();
  /// Unknown filters and tests are errors only when evaluated, for as long as the result lives.
  [[nodiscard]] Counter soften() { return Counter(soft_levels_); }

  // ---- grammar ----
  ast::ExprPtr parse_expression(bool with_conditional = true);
  ast::ExprPtr parse_tuple(TupleOptions options);
  ast::Target parse_target(TargetOptions options);
  /// Filters after `subject`; with starts_inline the first has no "|". Null if there are none.
  ast::ExprPtr parse_filters(ast::ExprPtr subject, bool starts_inline);

 private:
  template <typename Node>
  ast::ExprPtr make(Position at, Node node);
  void check_depth(int depth) const;

  ast::ExprPtr parse_conditional();
  ast::ExprPtr parse_or();
  ast::ExprPtr parse_and();
  ast::ExprPtr parse_not();
  ast::ExprPtr parse_compare();
  ast::ExprPtr parse_sum();
  ast::ExprPtr parse_concat();
  ast::ExprPtr parse_product();
  ast::ExprPtr parse_power();
  ast::ExprPtr parse_unary(bool with_filter = true);
  ast::ExprPtr parse_primary();
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

  std::vector<Token> tokens_;
  size_t next_ = 0;
  Limits limits_;
  int depth_ = 0;
  int soft_levels_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, ast::NameId> name_ids_;
  SpecialNames special_names_;
};

}  // namespace reprise::chat_template
