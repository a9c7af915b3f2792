#include "reprise/chat_template/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/chat_template/element_access.h"
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

/// Makes `frame` the current scope while this object lives.
class Evaluator::ScopeSwitch {
 public:
  ScopeSwitch(Evaluator& evaluator, std::shared_ptr<Frame> frame)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.frame_, std::move(frame))) {}
  /// Opens a new scope inside the current one.
  explicit ScopeSwitch(Evaluator& evaluator)
      : ScopeSwitch(evaluator, std::make_shared<Frame>(Frame{evaluator.frame_, {}})) {}
  ~ScopeSwitch() { evaluator_.frame_ = std::move(outer_); }
  ScopeSwitch(const ScopeSwitch&) = delete;
  ScopeSwitch& operator=(const ScopeSwitch&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Frame> outer_;
};

/// Collects output while this object lives.
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
  // Returns a pointer that marks this capture. It is not null, because the outermost capture has a
  // null outer buffer.
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
  const Text* text = value.text();
  text != nullptr ? emit(text->bytes) : emit(to_str(sandbox_, value));
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
    // The condition is evaluated between two iterations, in its own scope; `loop` there is the
    // outer loop's.
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
      // Every iteration starts without variables. If a macro holds the scope of the last iteration,
      // this one needs a new scope.
      if (frame_.use_count() == 1) {
        frame_->variables.clear();
      } else {
        frame_ = std::make_shared<Frame>(Frame{frame_->parent, {}});
      }
      const Flow flow = exec_iteration(node, Value(loop), *item);
      if (flow == Flow::broken) break;
      // As in jinja2, `else` also runs if every iteration was cut short by break or continue.
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

Value Evaluator::filter_block(const Expr& filter, Value text) {
  const Value outer = std::exchange(block_text_, std::move(text));
  Value result = eval(filter);
  block_text_ = outer;
  return result;
}

Evaluator::Flow Evaluator::exec_node(const SetBlock& node) {
  Value value;
  {
    ScopeSwitch scope(*this);
    Capture capture(*this);
    if (const Flow flow = exec(node.body); flow != Flow::normal) return flow;
    value = capture.take_value();
    if (node.filter) value = filter_block(*node.filter, std::move(value));
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
  emit(to_str(sandbox_, filter_block(*node.filter, std::move(text))));
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

// Templates can observe the order of these steps, so it follows Macro.__call__ of jinja2's
// runtime.py.
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
  // A default value can use all parameters before it, passed by position or by name.
  for (const Parameter* parameter : missing) {
    if (parameter->default_value) frame_->set(parameter->name, eval(*parameter->default_value));
  }
}

}  // namespace reprise::chat_template
