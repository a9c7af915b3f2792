#include "reprise/chat_template/token_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::chat_template {

std::string TokenStream::describe(const Token& token) {
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

const Token& TokenStream::look_ahead() const {
  return tokens_[std::min(next_ + 1, tokens_.size() - 1)];
}

void TokenStream::advance() { next_ = std::min(next_ + 1, tokens_.size() - 1); }

bool TokenStream::take_op(std::string_view symbol) {
  if (!current().is_op(symbol)) return false;
  advance();
  return true;
}

bool TokenStream::take_name(std::string_view word) {
  if (!current().is_name(word)) return false;
  advance();
  return true;
}

Token TokenStream::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    fail(fmt::format("expected {}, got {}", what, describe(current())));
  }
  Token token = current();
  advance();
  return token;
}

void TokenStream::expect_op(std::string_view symbol) {
  if (!take_op(symbol)) fail(fmt::format("expected '{}', got {}", symbol, describe(current())));
}

void TokenStream::expect_name(std::string_view word) {
  if (!take_name(word)) fail(fmt::format("expected '{}', got {}", word, describe(current())));
}

void TokenStream::fail(std::string_view message) const {
  throw TemplateError(TemplateError::Cause::syntax, current().at, message);
}

}  // namespace reprise::chat_template
