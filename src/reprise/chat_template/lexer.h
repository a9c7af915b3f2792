#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/chat_template/template_error.h"

namespace reprise::chat_template {

enum class TokenKind {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  floating,
  op,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // data: the text; name, op: as in the source; string: unescaped
  int64_t integer = 0;
  double floating = 0;
  Position at;

  [[nodiscard]] bool is_op(std::string_view symbol) const {
    return kind == TokenKind::op && text == symbol;
  }
  [[nodiscard]] bool is_name(std::string_view word) const {
    return kind == TokenKind::name && text == word;
  }
};

/// Cuts a template into tokens, like jinja2 with trim_blocks and lstrip_blocks. The lexer applies
/// white space control and raw blocks, and drops comments. The last token is `end`.
/// \throws TemplateError (syntax)
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace reprise::chat_template
