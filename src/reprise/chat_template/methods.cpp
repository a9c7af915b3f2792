#include "reprise/chat_template/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/chat_template/builtins.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/text_methods.h"

namespace reprise::chat_template {
namespace {

using Flavor = Sequence::Flavor;

template <Flavor flavor>
Value view(Sandbox& sandbox, const Value& self, const Bound&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries()) {
    if (flavor == Flavor::keys) items.push_back(key);
    if (flavor == Flavor::values) items.push_back(value);
    if (flavor == Flavor::items) items.push_back(sandbox.tuple({key, value}));
  }
  return sandbox.sequence({.items = std::move(items), .flavor = flavor});
}

Value get(Sandbox& sandbox, const Value& self, const Bound& args) {
  if (!is_hashable(args[0])) {
    sandbox.fail(fmt::format("unhashable type: '{}'", type_name(args[0])));
  }
  sandbox.charge_walk(args[0]);
  const Value* found = self.dict()->find(args[0]);
  return found != nullptr ? *found : args.value_or(1, Value());
}

Value copy(Sandbox&, const Value& self, const Bound&) { return self; }

Value count(Sandbox& sandbox, const Value& self, const Bound& args) {
  const auto& items = self.sequence()->items;
  return Value(
      static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return compare(sandbox, Comparison::equal, item, args[0]);
      })));
}

Value index(Sandbox& sandbox, const Value& self, const Bound& args) {
  const auto& items = self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (compare(sandbox, Comparison::equal, items[i], args[0])) {
      return Value(static_cast<int64_t>(i));
    }
  }
  sandbox.fail("the value is not in the list");
}

Value cycle(Sandbox& sandbox, const Value& self, const Bound& args) {
  const auto& values = args.raw().positional;
  if (values.empty()) sandbox.fail("no items for cycling given");
  return values[static_cast<size_t>(std::max<int64_t>(0, self.loop()->index0)) % values.size()];
}

Value changed(Sandbox& sandbox, const Value& self, const Bound& args) {
  Value now = sandbox.tuple(args.raw().positional);
  auto& before = self.loop()->last_changed;
  if (before.has_value() && compare(sandbox, Comparison::equal, *before, now)) return Value(false);
  before = std::move(now);
  return Value(true);
}

constexpr auto kDictMethods = std::to_array<Builtin>({
    {"copy", "", 0, copy},
    {"get", "/key /default", 1, get},
    {"items", "", 0, view<Flavor::items>},
    {"keys", "", 0, view<Flavor::keys>},
    {"values", "", 0, view<Flavor::values>},
});
constexpr auto kListMethods = std::to_array<Builtin>({
    {"copy", "", 0, copy},
    {"count", "/value", 1, count},
    {"index", "/value", 1, index},
});
constexpr auto kTupleMethods = std::to_array<Builtin>({
    {"count", "/value", 1, count},
    {"index", "/value", 1, index},
});
constexpr auto kLoopMethods = std::to_array<Builtin>({
    {"changed", "*", 0, changed},
    {"cycle", "*", 0, cycle},
});
constexpr auto kDictMutators =
    std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
constexpr auto kListMutators = std::to_array<std::string_view>(
    {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});

bool is_mutator(const Value& object, std::string_view name) {
  const auto is_in = [&](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (object.dict() != nullptr) return is_in(kDictMutators);
  const Sequence* sequence = object.sequence();
  return sequence != nullptr && sequence->flavor == Flavor::list && is_in(kListMutators);
}

const Builtin* find_method(const Value& object, std::string_view name) {
  if (object.is_text()) return find_text_method(name);
  if (object.dict() != nullptr) return find_in(kDictMethods, name);
  if (object.loop() != nullptr) return find_in(kLoopMethods, name);
  if (const Sequence* sequence = object.sequence()) {
    if (sequence->flavor == Flavor::list) return find_in(kListMethods, name);
    if (sequence->flavor == Flavor::tuple) return find_in(kTupleMethods, name);
  }
  return nullptr;
}

std::optional<Value> loop_attribute(Loop& loop, std::string_view name) {
  const auto integer = [](int64_t value) { return Value(value); };
  if (name == "index") return integer(loop.index0 + 1);
  if (name == "index0") return integer(loop.index0);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(!loop.peek().has_value());
  if (name == "length") return integer(loop.length());
  if (name == "revindex") return integer(loop.length() - loop.index0);
  if (name == "revindex0") return integer(loop.length() - loop.index0 - 1);
  if (name == "depth") return integer(1);  // no loop is recursive here
  if (name == "depth0") return integer(0);
  if (name == "previtem") {
    return loop.index0 > 0 ? *loop.previous : Sandbox::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    const auto& next = loop.peek();
    return next.has_value() ? *next : Sandbox::undefined("there is no next item");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> find_attribute(Sandbox& sandbox, const Value& object, std::string_view name) {
  sandbox.charge();
  const bool is_internal = name.starts_with("__") && name.ends_with("__");
  if (is_internal || is_mutator(object, name)) {
    // A dict may have this key, but Python finds the dict's own attribute first.
    return Sandbox::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  if (const Namespace* ns = object.name_space()) {
    const Value* found = ns->find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (const Builtin* method = find_method(object, name)) {
    return sandbox.callable(
        {.name = std::string(name), .builtin = method, .self = object, .macro = nullptr});
  }
  if (Loop* loop = object.loop()) return loop_attribute(*loop, name);
  if (const Callable* callable = object.callable();
      callable != nullptr && callable->macro != nullptr && name == "name") {
    return sandbox.text(callable->name);
  }
  return std::nullopt;
}

}  // namespace reprise::chat_template
