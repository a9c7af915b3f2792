#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/chat_template/lexer.h"

namespace reprise::chat_template {

/// The tokens of a template and the current position in them. The stream never passes the last
/// token, `end`.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[next_]; }
  [[nodiscard]] const Token& look_ahead() const;
  void advance();
  /// Consumes the current token if it is this operator or this name.
  bool take_op(std::string_view symbol);
  bool take_name(std::string_view word);
  /// Consumes the current token, which must be of this kind; `what` names the kind in the error.
  Token expect(TokenKind kind, std::string_view what);
  void expect_op(std::string_view symbol);
  void expect_name(std::string_view word);

  /// \throws TemplateError (syntax) at the current token
  [[noreturn]] void fail(std::string_view message) const;
  /// Names the token in the words of jinja2's messages.
  [[nodiscard]] static std::string describe(const Token& token);

 private:
  std::vector<Token> tokens_;
  size_t next_ = 0;
};

}  // namespace reprise::chat_template
