#include "reprise/chat_template/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"

namespace reprise::chat_template {

using namespace ast;  // NOLINT: the walk names every node type

const Value* Frame::find_here(NameId name) const {
  for (const auto& [id, value] : variables) {
    if (id == name) return &value;
  }
  return nullptr;
}

const Value* Frame::find(NameId name) const {
  for (const Frame* frame = this; frame != nullptr; frame = frame->parent.get()) {
    if (const Value* value = frame->find_here(name)) return value;
  }
  return nullptr;
}

void Frame::set(NameId name, Value value) {
  for (auto& [id, held] : variables) {
    if (id == name) {
      held = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

/// Makes `frame` the current scope while it lives.
class Evaluator::ScopeSwitch {
 public:
  ScopeSwitch(Evaluator& evaluator, std::shared_ptr<Frame> frame)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.frame_, std::move(frame))) {}
  /// A new scope inside the current one.
  explicit ScopeSwitch(Evaluator& evaluator)
      : ScopeSwitch(evaluator, std::make_shared<Frame>(Frame{evaluator.frame_, {}})) {}
  ~ScopeSwitch() { evaluator_.frame_ = std::move(outer_); }
  ScopeSwitch(const ScopeSwitch&) = delete;
  ScopeSwitch& operator=(const ScopeSwitch&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Frame> outer_;
};

/// Collects output while it lives.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.out_, &text_)) {}
  ~Capture() { stop(); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] std::string take() {
    stop();
    return std::move(text_);
  }
  [[nodiscard]] Value take_value() { return evaluator_.sandbox_.text(take()); }

 private:
  void stop() {
    if (outer_ == this_is_over()) return;
    evaluator_.sandbox_.release_buffer(text_.size());
    evaluator_.out_ = std::exchange(outer_, this_is_over());
  }
  // Not null: the outermost capture has no outer buffer.
  std::string* this_is_over() { return &text_; }

  Evaluator& evaluator_;
  std::string text_;
  std::string* outer_;
};

Evaluator::~Evaluator() {
  for (const auto& frame : captured_frames_) frame->variables.clear();
}

std::string Evaluator::run() {
  Capture capture(*this);
  (void)exec(tree_.body);
  return capture.take();
}

// ---- statements ----

Evaluator::Flow Evaluator::exec(const Body& body) {
  const auto level = sandbox_.enter_eval();
  for (const Stmt& statement : body) {
    sandbox_.charge();
    sandbox_.at = statement.at;
    const Flow flow =
        std::visit([this](const auto& node) { return exec_node(node); }, statement.node);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

void Evaluator::emit(std::string_view text) {
  sandbox_.grow_buffer(text.size(), out_->size() + text.size());
  out_->append(text);
}

Evaluator::Flow Evaluator::exec_node(const Data& node) {
  emit(node.text);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const Output& node) {
  const Value value = eval(*node.value);
  if (const Text* text = value.text()) {
    emit(text->bytes);
  } else {
    emit(to_str(sandbox_, value));
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (is_truthy(eval(*test))) return exec(body);
  }
  return exec(node.otherwise);
}

Evaluator::Flow Evaluator::exec_iteration(const For& node, const Value& loop, const Value& item) {
  frame_->set(kLoop, loop);
  assign(node.target, item);
  return exec(node.body);
}

Evaluator::Flow Evaluator::exec_node(const For& node) {
  std::vector<Value> items = iterate(sandbox_, eval(*node.iterable));
  std::function<bool(const Value&)> accepts;
  if (node.condition) {
    // Runs between the iterations, in a scope beside the body's: `loop` is the outer one there.
    accepts = [this, &node, outer = frame_](const Value& item) {
      const ScopeSwitch scope(*this, std::make_shared<Frame>(Frame{outer, {}}));
      assign(node.target, item);
      return is_truthy(eval(*node.condition));
    };
  }
  const auto loop = std::make_shared<Loop>(std::move(items), std::move(accepts));
  struct Finish {
    Loop& loop;
    ~Finish() { loop.finish(); }
  } const finish{*loop};

  bool completed_one = false;
  {
    ScopeSwitch scope(*this);
    while (auto item = loop->advance()) {
      sandbox_.charge();
      // Every iteration starts with no variables of its own; a macro may keep the old ones.
      if (frame_.use_count() == 1) {
        frame_->variables.clear();
      } else {
        frame_ = std::make_shared<Frame>(Frame{frame_->parent, {}});
      }
      const Flow flow = exec_iteration(node, Value(loop), *item);
      if (flow == Flow::broken) break;
      // As jinja2 has it: `else` also runs when no iteration got to its end.
      if (flow == Flow::normal) completed_one = true;
    }
  }
  if (completed_one || node.otherwise.empty()) return Flow::normal;
  ScopeSwitch scope(*this);
  return exec(node.otherwise);
}

Evaluator::Flow Evaluator::exec_node(const Set& node) {
  assign(node.target, eval(*node.value));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const SetBlock& node) {
  Value value;
  {
    ScopeSwitch scope(*this);
    Capture capture(*this);
    if (const Flow flow = exec(node.body); flow != Flow::normal) return flow;
    value = capture.take_value();
    if (node.filter) {
      const Value outer = std::exchange(block_text_, value);
      value = eval(*node.filter);
      block_text_ = outer;
    }
  }
  assign(node.target, value);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const Macro& node) {
  frame_->set(node.name, make_macro(node.function));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const CallBlock& node) {
  const Value caller = make_macro(node.caller);
  const auto& call = std::get<ast::Call>(node.call->node);
  const Value callee = eval(*call.callee);
  Args args = eval_arguments(call.arguments);
  args.named.emplace_back("caller", caller);
  const Value result = call_value(callee, std::move(args), node.call->at);
  emit(to_str(sandbox_, result));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const FilterBlock& node) {
  ScopeSwitch scope(*this);
  Value text;
  {
    Capture capture(*this);
    if (const Flow flow = exec(node.body); flow != Flow::normal) return flow;
    text = capture.take_value();
  }
  const Value outer = std::exchange(block_text_, text);
  const Value result = eval(*node.filter);
  block_text_ = outer;
  emit(to_str(sandbox_, result));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const With& node) {
  std::vector<Value> values;
  for (const auto& variable : node.variables) values.push_back(eval(*variable.second));
  ScopeSwitch scope(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(node.variables[i].first, values[i]);
  return exec(node.body);
}

Evaluator::Flow Evaluator::exec_node(const Scope& node) {
  ScopeSwitch scope(*this);
  return exec(node.body);
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const auto items = iterate(sandbox_, value);
    if (items.size() != target.parts.size()) {
      sandbox_.fail(
          items.size() < target.parts.size()
              ? fmt::format("not enough values to unpack (expected {}, got {})",
                            target.parts.size(),
                            items.size())
              : fmt::format("too many values to unpack (expected {})", target.parts.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    return;
  }
  if (target.attribute.empty()) {
    frame_->set(target.name, value);
    return;
  }
  const Value* holder = frame_->find(target.name);
  Namespace* ns = holder == nullptr ? nullptr : holder->name_space();
  if (ns == nullptr) sandbox_.fail("cannot assign attribute on non-namespace object");
  if (target.attribute.starts_with('_')) {
    sandbox_.fail("cannot store underscore-prefixed attributes on a namespace");
  }
  if (ns->find(target.attribute) == nullptr) sandbox_.hold(sizeof(Value) + sizeof(std::string));
  ns->set(target.attribute, value);
}

// ---- expressions ----

Value Evaluator::eval(const Expr& expr) {
  const auto level = sandbox_.enter_eval();
  sandbox_.charge();
  sandbox_.at = expr.at;
  return std::visit([&](const auto& node) { return eval_node(node, expr.at); }, expr.node);
}

Value Evaluator::eval_or_none(const ExprPtr& expr) { return expr ? eval(*expr) : Value(); }

Value Evaluator::eval_node(const Name& node, Position) {
  if (const Value* value = frame_->find(node.id)) return *value;
  const std::string& name = tree_.names[node.id];
  if (const Builtin* global = find_global(name)) {
    return sandbox_.callable({.name = name, .builtin = global, .self = Value(), .macro = nullptr});
  }
  return Sandbox::undefined(fmt::format("'{}' is undefined", name));
}

Value Evaluator::eval_node(const ListLiteral& node, Position) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(eval(*item));
  return node.is_tuple ? sandbox_.tuple(std::move(items)) : sandbox_.list(std::move(items));
}

Value Evaluator::eval_node(const DictLiteral& node, Position at) {
  Dict dict;
  for (const auto& [key_expr, value_expr] : node.entries) {
    Value key = eval(*key_expr);
    Value value = eval(*value_expr);
    sandbox_.at = at;
    if (!is_hashable(key)) sandbox_.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    sandbox_.charge_walk(key);
    dict.set(std::move(key), std::move(value));
  }
  return sandbox_.dict(std::move(dict));
}

Value Evaluator::eval_node(const Unary& node, Position at) {
  const Value operand = eval(*node.operand);
  sandbox_.at = at;
  switch (node.op) {
    case UnaryOp::negate:
      return negate(sandbox_, operand);
    case UnaryOp::posit:
      return posit(sandbox_, operand);
    case UnaryOp::logical_not:
      break;
  }
  return Value(!is_truthy(operand));
}

Value Evaluator::eval_node(const Chain& node, Position at) {
  Value result = eval(*node.first);
  for (const auto& [op, operand_expr] : node.rest) {
    const Value operand = eval(*operand_expr);
    sandbox_.at = at;
    result = binary(sandbox_, op, result, operand);
  }
  return result;
}

Value Evaluator::eval_node(const Logical& node, Position) {
  Value value;
  for (const auto& operand : node.operands) {
    value = eval(*operand);
    if (is_truthy(value) != node.is_and) break;
  }
  return value;
}

Value Evaluator::eval_node(const ast::Compare& node, Position at) {
  Value left = eval(*node.first);
  for (const auto& [comparison, operand] : node.rest) {
    Value right = eval(*operand);
    sandbox_.at = at;
    if (!compare(sandbox_, comparison, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::eval_node(const Concat& node, Position) {
  std::string text;
  for (const auto& operand : node.operands) {
    const Value value = eval(*operand);
    if (const Text* part = value.text()) {
      sandbox_.check_text_size(text.size() + part->bytes.size());
      text += part->bytes;
    } else {
      text += to_str(sandbox_, value);
    }
  }
  return sandbox_.text(std::move(text));
}

Value Evaluator::eval_node(const Conditional& node, Position) {
  if (is_truthy(eval(*node.test))) return eval(*node.value);
  if (node.otherwise) return eval(*node.otherwise);
  return Sandbox::undefined(
      "the inline if-expression evaluated to false and no else section was defined.");
}

Value Evaluator::eval_node(const Attribute& node, Position at) {
  const Value object = eval(*node.object);
  sandbox_.at = at;
  return attribute(sandbox_, object, node.name);
}

Value Evaluator::eval_node(const Subscript& node, Position at) {
  const Value object = eval(*node.object);
  const Value key = eval(*node.key);
  sandbox_.at = at;
  return subscript(sandbox_, object, key);
}

Value Evaluator::eval_node(const ast::Slice& node, Position at) {
  const Value object = eval(*node.object);
  const Value start = eval_or_none(node.start);
  const Value stop = eval_or_none(node.stop);
  const Value step = eval_or_none(node.step);
  sandbox_.at = at;
  return slice(sandbox_, object, start, stop, step);
}

Value Evaluator::eval_node(const ast::Call& node, Position at) {
  const Value callee = eval(*node.callee);
  return call_value(callee, eval_arguments(node.arguments), at);
}

Value Evaluator::eval_node(const Filter& node, Position at) {
  const Value subject = node.subject ? eval(*node.subject) : block_text_;
  const Args args = eval_arguments(node.arguments);
  sandbox_.at = at;
  if (node.filter == nullptr) sandbox_.fail(no_filter_message(node.name));
  return call(sandbox_, *node.filter, subject, args);
}

Value Evaluator::eval_node(const Test& node, Position at) {
  const Value subject = eval(*node.subject);
  const Args args = eval_arguments(node.arguments);
  sandbox_.at = at;
  if (node.test == nullptr) sandbox_.fail(fmt::format("No test named '{}'.", node.name));
  return call(sandbox_, *node.test, subject, args);
}

Args Evaluator::eval_arguments(const Arguments& arguments) {
  Args args;
  for (const auto& argument : arguments.positional) args.positional.push_back(eval(*argument));
  for (const auto& [name, value] : arguments.named) args.named.emplace_back(name, eval(*value));
  if (arguments.star) {
    for (Value& value : iterate(sandbox_, eval(*arguments.star))) {
      args.positional.push_back(std::move(value));
    }
  }
  if (arguments.double_star) {
    const Value more = eval(*arguments.double_star);
    if (more.dict() == nullptr) sandbox_.fail("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict()->entries()) {
      const std::string& name = require_text(sandbox_, key, "keywords").bytes;
      const bool is_repeated = std::any_of(
          args.named.begin(), args.named.end(), [&](const auto& n) { return n.first == name; });
      if (is_repeated) sandbox_.fail(fmt::format("got multiple values for argument '{}'", name));
      sandbox_.charge(1 + args.named.size() / 8);
      args.named.emplace_back(name, value);
    }
  }
  return args;
}

// ---- calls ----

Value Evaluator::make_macro(const Function& function) {
  if (captured_frames_.empty() || captured_frames_.back() != frame_) {
    sandbox_.hold(256);
    captured_frames_.push_back(frame_);
  }
  return sandbox_.callable(
      {.name = function.name,
       .builtin = nullptr,
       .self = Value(),
       .macro = std::make_shared<const MacroClosure>(MacroClosure{&function, frame_})});
}

Value Evaluator::call_value(const Value& callee, Args args, Position at) {
  sandbox_.at = at;
  require_defined(sandbox_, callee);
  const Callable* callable = callee.callable();
  if (callable == nullptr) {
    sandbox_.fail(fmt::format("'{}' object is not callable", type_name(callee)));
  }
  if (callable->macro != nullptr) return call_macro(*callable->macro, std::move(args));
  return call(sandbox_, *callable->builtin, callable->self, args);
}

Value Evaluator::call_macro(const MacroClosure& macro, Args args) {
  const auto level = sandbox_.enter_call();
  ScopeSwitch scope(*this, std::make_shared<Frame>(Frame{macro.frame, {}}));
  bind_parameters(*macro.function, args);
  Capture capture(*this);
  (void)exec(macro.function->body);
  return capture.take_value();
}

// Source: Macro.__call__ of jinja2's runtime.py; the order of the steps is what templates see.
void Evaluator::bind_parameters(const Function& function, Args& args) {
  const auto& parameters = function.parameters;
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto hit = std::find_if(
        args.named.begin(), args.named.end(), [&](const auto& n) { return n.first == name; });
    if (hit == args.named.end()) return std::nullopt;
    Value value = std::move(hit->second);
    args.named.erase(hit);
    return value;
  };
  std::vector<const Parameter*> missing;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    std::optional<Value> value;
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else {
      value = take_named(parameter.text);
      if (!value) missing.push_back(&parameter);
    }
    frame_->set(
        parameter.name,
        value ? *value
              : Sandbox::undefined(fmt::format("parameter '{}' was not provided", parameter.text)));
  }
  if (function.uses_caller) {
    const auto caller = take_named("caller");
    frame_->set(kCaller, caller ? *caller : Sandbox::undefined("No caller defined"));
  }
  if (function.uses_kwargs) {
    Dict kwargs;
    for (const auto& [name, value] : args.named) kwargs.set(sandbox_.text(name), value);
    frame_->set(kKwargs, sandbox_.dict(std::move(kwargs)));
  } else if (!args.named.empty()) {
    sandbox_.fail(fmt::format(
        "macro '{}' takes no keyword argument '{}'", function.name, args.named.front().first));
  }
  const size_t taken = std::min(parameters.size(), args.positional.size());
  if (function.uses_varargs) {
    frame_->set(kVarargs,
                sandbox_.tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                                args.positional.end()}));
  } else if (args.positional.size() > parameters.size()) {
    sandbox_.fail(fmt::format(
        "macro '{}' takes not more than {} argument(s)", function.name, parameters.size()));
  }
  // Defaults see the parameters before them, whatever way those were passed.
  for (const Parameter* parameter : missing) {
    if (parameter->default_value) frame_->set(parameter->name, eval(*parameter->default_value));
  }
}

}  // namespace reprise::chat_template
