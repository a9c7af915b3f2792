#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/chat_template/ast.h"
#include "reprise/chat_template/sandbox.h"

namespace reprise::chat_template {

/// Variables of one scope. A loop body, a macro call and a capturing block are scopes; `if` is not.
/// A macro keeps the scope in which it was defined.
struct Frame {
  std::shared_ptr<Frame> parent;
  std::vector<std::pair<ast::NameId, Value>> variables;

  [[nodiscard]] const Value* find_here(ast::NameId name) const;
  /// Finds the variable in this scope or in an enclosing one.
  [[nodiscard]] const Value* find(ast::NameId name) const;
  void set(ast::NameId name, Value value);
};

/// A macro as a value: its function and the scope that it closes over.
struct MacroClosure {
  const ast::Function* function;  // the Template's, which outlives the render
  std::shared_ptr<Frame> frame;
};

/// Runs one template once, on one thread.
class Evaluator {
 public:
  Evaluator(const ast::Template& tree, Sandbox& sandbox) : tree_(tree), sandbox_(sandbox) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Makes a variable visible to the whole template.
  void define(ast::NameId name, Value value) { frame_->set(name, std::move(value)); }
  [[nodiscard]] std::string run();

 private:
  enum class Flow { normal, broken, continued };
  class ScopeSwitch;
  class Capture;

  // ---- statements ----
  Flow exec(const ast::Body& body);
  Flow exec_node(const ast::Data& node);
  Flow exec_node(const ast::Output& node);
  Flow exec_node(const ast::If& node);
  Flow exec_node(const ast::For& node);
  Flow exec_node(const ast::Set& node);
  Flow exec_node(const ast::SetBlock& node);
  Flow exec_node(const ast::Macro& node);
  Flow exec_node(const ast::CallBlock& node);
  Flow exec_node(const ast::FilterBlock& node);
  Flow exec_node(const ast::With& node);
  Flow exec_node(const ast::Scope& node);
  Flow exec_node(const ast::Break&) { return Flow::broken; }
  Flow exec_node(const ast::Continue&) { return Flow::continued; }
  Flow exec_iteration(const ast::For& node, const Value& loop, const Value& item);
  /// The value of `filter` applied to `text`, the text of the enclosing block.
  Value filter_block(const ast::Expr& filter, Value text);
  void emit(std::string_view text);
  void assign(const ast::Target& target, const Value& value);

  // ---- expressions ----
  Value eval(const ast::Expr& expr);
  Value eval_or_none(const ast::ExprPtr& expr);
  Value eval_node(const ast::Constant& node, Position) { return node.value; }
  Value eval_node(const ast::Name& node, Position at);
  Value eval_node(const ast::ListLiteral& node, Position at);
  Value eval_node(const ast::DictLiteral& node, Position at);
  Value eval_node(const ast::Unary& node, Position at);
  Value eval_node(const ast::Chain& node, Position at);
  Value eval_node(const ast::Logical& node, Position at);
  Value eval_node(const ast::Compare& node, Position at);
  Value eval_node(const ast::Concat& node, Position at);
  Value eval_node(const ast::Conditional& node, Position at);
  Value eval_node(const ast::Attribute& node, Position at);
  Value eval_node(const ast::Subscript& node, Position at);
  Value eval_node(const ast::Slice& node, Position at);
  Value eval_node(const ast::Call& node, Position at);
  Value eval_node(const ast::Filter& node, Position at);
  Value eval_node(const ast::Test& node, Position at);
  Args eval_arguments(const ast::Arguments& arguments);

  // ---- calls ----
  Value make_macro(const ast::Function& function);
  Value call_value(const Value& callee, Args args, Position at);
  Value call_macro(const MacroClosure& macro, Args args);
  void bind_parameters(const ast::Function& function, Args& args);

  const ast::Template& tree_;
  Sandbox& sandbox_;
  std::shared_ptr<Frame> frame_ = std::make_shared<Frame>();
  std::string* out_ = nullptr;
  Value block_text_;  // the subject of a filter that has no operand
  // The scopes that macros hold. A macro stored in the scope that it holds is a cycle of shared
  // pointers, which the destructor breaks.
  std::vector<std::shared_ptr<Frame>> captured_frames_;
};

}  // namespace reprise::chat_template
