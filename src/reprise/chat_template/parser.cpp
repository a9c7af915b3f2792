#include "reprise/chat_template/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/chat_template/expression_parser.h"
#include "reprise/chat_template/lexer.h"

namespace reprise::chat_template {

std::optional<ast::NameId> ast::Template::find_name(std::string_view name) const {
  const auto hit = std::find(names.begin(), names.end(), name);
  if (hit == names.end()) return std::nullopt;
  return static_cast<NameId>(hit - names.begin());
}

namespace {

using namespace ast;  // NOLINT: the grammar reads better without prefixes

/// The grammar of statements. The base class has the grammar of expressions.
class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  ast::Template parse() {
    Body body = parse_body({});
    return {.body = std::move(body), .names = take_names()};
  }

 private:
  using EndTags = std::vector<std::string_view>;

  // Parses up to one of `end_tags`, which stays the current token. When `end_tags` is empty, parses
  // to the end of the input.
  Body parse_body(const EndTags& end_tags) {
    const auto level = enter();
    Body body;
    while (true) {
      const Token& token = current();
      switch (token.kind) {
        case TokenKind::data:
          body.push_back({Data{token.text}, token.at});
          advance();
          break;
        case TokenKind::variable_begin: {
          const Position at = token.at;
          advance();
          ExprPtr value = parse_tuple({});
          expect(TokenKind::variable_end, "end of print statement");
          body.push_back({Output{std::move(value)}, at});
          break;
        }
        case TokenKind::block_begin: {
          const Position at = token.at;
          advance();
          if (std::any_of(end_tags.begin(), end_tags.end(), [&](auto tag) {
                return current().is_name(tag);
              })) {
            return body;
          }
          parse_statement(body, at);
          expect(TokenKind::block_end, "end of statement block");
          break;
        }
        default:
          if (end_tags.empty()) return body;
          fail(fmt::format("Unexpected end of template. Looking for '{}'.", end_tags.front()));
      }
    }
  }

  // Parses "%}" and a body up to an end tag, which stays the current token.
  Body parse_block(const EndTags& end_tags) {
    (void)take_op(":");  // Python users write a colon here
    expect(TokenKind::block_end, "end of statement block");
    return parse_body(end_tags);
  }

  // The same as parse_block(), but also consumes the end tag.
  Body parse_block_to(std::string_view end_tag) {
    Body body = parse_block({end_tag});
    advance();
    return body;
  }

  void parse_statement(Body& body, Position at) {
    if (current().kind != TokenKind::name) fail("tag name expected");
    const std::string tag = current().text;
    advance();
    const auto add = [&](auto node) { body.push_back({std::move(node), at}); };
    if (tag == "if") {
      add(parse_if());
    } else if (tag == "for") {
      add(parse_for());
    } else if (tag == "set") {
      parse_set(body, at);
    } else if (tag == "macro") {
      add(parse_macro());
    } else if (tag == "call") {
      add(parse_call_block());
    } else if (tag == "filter") {
      ExprPtr filter = parse_filters(nullptr, /*starts_inline=*/true);
      add(FilterBlock{.filter = std::move(filter), .body = parse_block_to("endfilter")});
    } else if (tag == "with") {
      add(parse_with());
    } else if (tag == "generation") {  // transformers marks assistant text with this tag; it
                                       // renders its body unchanged
      const int outer_loops = std::exchange(open_loops_, 0);
      add(Scope{.body = parse_block_to("endgeneration")});
      open_loops_ = outer_loops;
    } else if (tag == "print") {
      parse_print(body, at);
    } else if (tag == "break" || tag == "continue") {
      if (open_loops_ == 0) fail(fmt::format("'{}' outside loop", tag));
      tag == "break" ? add(Break{}) : add(Continue{});
    } else {
      fail_unknown_tag(tag);
    }
  }

  [[noreturn]] void fail_unknown_tag(std::string_view tag) const {
    static constexpr std::array<std::string_view, 6> kRefused = {
        "extends", "block", "include", "import", "from", "autoescape"};
    const bool is_refused = std::find(kRefused.begin(), kRefused.end(), tag) != kRefused.end();
    fail(is_refused ? fmt::format("the tag '{}' is not supported in chat templates", tag)
                    : fmt::format("Encountered unknown tag '{}'.", tag));
  }

  If parse_if() {
    If node;
    const auto soft = soften();  // an unknown filter is an error only if it is reached
    while (true) {
      TupleOptions options;
      options.with_conditional = false;
      ExprPtr test = parse_tuple(options);
      Body body = parse_block({"elif", "else", "endif"});
      node.branches.emplace_back(std::move(test), std::move(body));
      const std::string tag = current().text;
      advance();
      if (tag == "elif") continue;
      if (tag == "else") node.otherwise = parse_block_to("endif");
      return node;
    }
  }

  For parse_for() {
    For node;
    node.target = parse_target({.ends_with_in = true});
    refuse_loop_target(node.target);
    expect_name("in");
    TupleOptions options;
    options.with_conditional = false;
    options.ends_with_recursive = true;
    node.iterable = parse_tuple(options);
    if (take_name("if")) node.condition = parse_expression();
    if (current().is_name("recursive")) fail("recursive loops are not supported");
    ++open_loops_;
    ++loops_around_;
    node.body = parse_block({"endfor", "else"});
    --open_loops_;
    const bool has_else = current().is_name("else");
    advance();
    if (has_else) node.otherwise = parse_block_to("endfor");
    --loops_around_;
    return node;
  }

  void refuse_loop_target(const Target& target) const {
    for (const Target& part : target.parts) refuse_loop_target(part);
    if (!target.is_tuple && target.attribute.empty() && target.name == kLoop) {
      fail("Can't assign to special loop variable in for-loop target");
    }
  }

  void parse_set(Body& body, Position at) {
    Target target = parse_target({.with_namespace = true});
    if (loops_around_ > 0) refuse_loop_target(target);
    if (take_op("=")) {
      body.push_back({Set{.target = std::move(target), .value = parse_tuple({})}, at});
      return;
    }
    ExprPtr filter = parse_filters(nullptr, /*starts_inline=*/false);
    Body block = parse_block_to("endset");
    body.push_back(
        {SetBlock{
             .target = std::move(target), .filter = std::move(filter), .body = std::move(block)},
         at});
  }

  void parse_signature(Function& function) {
    expect_op("(");
    while (!current().is_op(")")) {
      if (!function.parameters.empty()) expect_op(",");
      Parameter parameter;
      parameter.text = expect(TokenKind::name, "parameter name").text;
      parameter.name = intern(parameter.text);
      if (take_op("=")) {
        parameter.default_value = parse_expression();
      } else if (!function.parameters.empty() && function.parameters.back().default_value) {
        fail("non-default argument follows default argument");
      }
      function.parameters.push_back(std::move(parameter));
    }
    advance();
  }

  // Parses the body of a macro or call block. break and continue inside the body cannot leave a
  // loop around it.
  void parse_function_body(Function& function, std::string_view end_tag) {
    const SpecialNames outer = std::exchange(special_names(), {});
    const int outer_loops = std::exchange(open_loops_, 0);
    function.body = parse_block_to(end_tag);
    open_loops_ = outer_loops;
    const SpecialNames used = std::exchange(special_names(), outer);
    const auto is_parameter = [&](NameId name) {
      return std::any_of(function.parameters.begin(),
                         function.parameters.end(),
                         [&](const Parameter& p) { return p.name == name; });
    };
    function.uses_caller = used.caller && !is_parameter(kCaller);
    function.uses_varargs = used.varargs && !is_parameter(kVarargs);
    function.uses_kwargs = used.kwargs && !is_parameter(kKwargs);
  }

  Macro parse_macro() {
    Macro node;
    node.function.name = expect(TokenKind::name, "macro name").text;
    node.name = intern(node.function.name);
    parse_signature(node.function);
    parse_function_body(node.function, "endmacro");
    return node;
  }

  CallBlock parse_call_block() {
    CallBlock node;
    node.caller.name = "caller";
    if (current().is_op("(")) parse_signature(node.caller);
    node.call = parse_expression();
    if (!std::holds_alternative<Call>(node.call->node)) fail("expected call");
    parse_function_body(node.caller, "endcall");
    return node;
  }

  With parse_with() {
    With node;
    while (current().kind != TokenKind::block_end) {
      if (!node.variables.empty()) expect_op(",");
      Target target = parse_target({});
      expect_op("=");
      node.variables.emplace_back(std::move(target), parse_expression());
    }
    node.body = parse_block_to("endwith");
    return node;
  }

  void parse_print(Body& body, Position at) {
    for (bool is_first = true; current().kind != TokenKind::block_end; is_first = false) {
      if (!is_first) expect_op(",");
      body.push_back({Output{parse_expression()}, at});
    }
  }

  int open_loops_ = 0;    // number of enclosing loops that break and continue can leave
  int loops_around_ = 0;  // number of enclosing loops, also outside of macros
};

}  // namespace

ast::Template parse_template(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes) {
    throw TemplateError(TemplateError::Cause::limit,
                        {},
                        fmt::format("the template has {} bytes, at most {} are allowed",
                                    source.size(),
                                    limits.max_source_bytes));
  }
  return Parser(tokenize(source), limits).parse();
}

}  // namespace reprise::chat_template
