#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/chat_template/builtins.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/template_error.h"
#include "reprise/chat_template/value.h"

/// A parsed template. Immutable once the parser is done, so any number of threads may render it.
namespace reprise::chat_template::ast {

/// Index into Template::names.
using NameId = uint32_t;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using Exprs = std::vector<ExprPtr>;

struct Arguments {
  Exprs positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args, null if none
  ExprPtr double_star;  // **kwargs, null if none
};

struct Constant {
  Value value;
};
struct Name {
  NameId id;
};
struct ListLiteral {
  Exprs items;
  bool is_tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOp { negate, posit, logical_not };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
/// A chain of binary operators, evaluated from left to right: `first`, then pairs of operator and
/// operand. A long sum is one node with many operands, not a deep tree.
struct Chain {
  ExprPtr first;
  std::vector<std::pair<BinaryOp, ExprPtr>> rest;
};
/// `and` / `or`: the value is the first operand that decides the result.
struct Logical {
  bool is_and;
  Exprs operands;
};
/// a < b < c: all comparisons must hold, and each operand is evaluated once.
struct Compare {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};
/// a ~ b ~ c
struct Concat {
  Exprs operands;
};
/// value if test else otherwise
struct Conditional {
  ExprPtr test;
  ExprPtr value;
  ExprPtr otherwise;  // null: undefined
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object;
  ExprPtr key;
};
struct Slice {
  ExprPtr object;
  ExprPtr start, stop, step;  // null: left out
};
struct Call {
  ExprPtr callee;
  Arguments arguments;
};
/// value | name(arguments)
struct Filter {
  std::string name;
  const Builtin* filter;  // null: unknown name; evaluating the node is an error
  ExprPtr subject;        // null: the text of the enclosing block
  Arguments arguments;
};
/// value is name(arguments)
struct Test {
  std::string name;
  const Builtin* test;  // null: unknown name; evaluating the node is an error
  ExprPtr subject;
  Arguments arguments;
};

struct Expr {
  std::variant<Constant,
               Name,
               ListLiteral,
               DictLiteral,
               Unary,
               Chain,
               Logical,
               Compare,
               Concat,
               Conditional,
               Attribute,
               Subscript,
               Slice,
               Call,
               Filter,
               Test>
      node;
  Position at;
  int depth = 1;  // depth of the tree below and with this node
};

/// The target of an assignment: a name, a namespace attribute, or a tuple of these.
struct Target {
  NameId name = 0;
  std::string attribute;      // not empty: namespace attribute
  std::vector<Target> parts;  // not empty, or is_tuple: unpack
  bool is_tuple = false;
  Position at;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Output {
  ExprPtr value;
};
struct Data {
  std::string text;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;  // if, elif, ...
  Body otherwise;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // null: every item
  Body body;
  Body otherwise;  // runs if no iteration ran to the end of `body`, for example without items
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filter;  // null: none
  Body body;
};
struct Parameter {
  NameId name;
  std::string text;
  ExprPtr default_value;  // null: undefined when not passed
};
/// The function of a macro or call block. Each closure made from the function points to it.
struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // The body mentions these names, so calls must provide them.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};
struct Macro {
  NameId name;
  Function function;
};
/// {% call(args) callee(...) %}body{% endcall %}
struct CallBlock {
  Function caller;
  ExprPtr call;  // always a Call
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Body body;
};
/// A body with its own scope: {% generation %}
struct Scope {
  Body body;
};
struct Break {};
struct Continue {};

struct Stmt {
  std::variant<Data,
               Output,
               If,
               For,
               Set,
               SetBlock,
               Macro,
               CallBlock,
               FilterBlock,
               With,
               Scope,
               Break,
               Continue>
      node;
  Position at;
};

/// Names with a fixed meaning. They are interned first, so their ids are the values of this enum.
enum WellKnown : NameId { kLoop, kCaller, kVarargs, kKwargs };

struct Template {
  Body body;
  std::vector<std::string> names;
  [[nodiscard]] std::optional<NameId> find_name(std::string_view name) const;
};

}  // namespace reprise::chat_template::ast
