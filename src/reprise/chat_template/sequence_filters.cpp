#include "reprise/chat_template/sequence_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/text_operations.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {
namespace {

// ---- "a.b.0" paths of the argument `attribute` ----

std::vector<Value> path_parts(Sandbox& sandbox, std::string_view path) {
  std::vector<Value> parts;
  for (bool has_more = true; has_more;) {
    const size_t dot = path.find('.');
    has_more = dot != std::string_view::npos;
    const std::string_view part = path.substr(0, dot);
    const bool is_number =
        !part.empty() && part.size() < 18 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    parts.push_back(is_number ? Value(static_cast<int64_t>(std::stoll(std::string(part))))
                              : sandbox.text(std::string(part)));
    if (has_more) path.remove_prefix(dot + 1);
  }
  return parts;
}

class Getter {
 public:
  // Without an attribute, the getter returns the item itself.
  Getter(Sandbox& sandbox, const Value& attribute) : sandbox_(sandbox) {
    if (attribute.is_none()) return;
    if (const Text* path = attribute.text()) {
      parts_ = path_parts(sandbox, path->bytes);
    } else {
      parts_.push_back(attribute);
    }
  }

  [[nodiscard]] Value operator()(Value item, const std::optional<Value>& fallback = {}) const {
    for (const Value& part : parts_) {
      item = subscript(sandbox_, item, part);
      if (fallback.has_value() && item.is_undefined()) item = *fallback;
    }
    return item;
  }

 private:
  Sandbox& sandbox_;
  std::vector<Value> parts_;
};

Value ignore_case(Sandbox& sandbox, const Value& value) {
  const Text* text = value.text();
  return text == nullptr ? value : sandbox.text(unicode::lower(text->bytes), text->is_markup);
}

Value maybe_ignore_case(Sandbox& sandbox, const Value& value, bool is_case_sensitive) {
  return is_case_sensitive ? value : ignore_case(sandbox, value);
}

// ---- picking ----

Value first(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (Iterator* iterator = subject.iterator()) {
    if (iterator->next < iterator->items.size()) return iterator->items[iterator->next++];
  } else {
    if (const Text* text = subject.text(); text != nullptr && !text->bytes.empty()) {
      return subscript(sandbox, subject, Value(int64_t{0}));
    }
    const auto items = iterate(sandbox, subject);
    if (!items.empty()) return items.front();
  }
  return Sandbox::undefined("No first item, sequence was empty.");
}

Value last(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (subject.iterator() != nullptr) sandbox.fail("'generator' object is not reversible");
  if (const Text* text = subject.text(); text != nullptr && !text->bytes.empty()) {
    return subscript(sandbox, subject, Value(int64_t{-1}));
  }
  const auto items = iterate(sandbox, subject);
  return items.empty() ? Sandbox::undefined("No last item, sequence was empty.") : items.back();
}

template <Comparison wanted>
Value extreme(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const auto items = iterate(sandbox, subject);
  if (items.empty()) return Sandbox::undefined("No aggregated item, sequence was empty.");
  const Getter get(sandbox, args.value_or(1, Value()));
  const auto key = [&](const Value& item) {
    return maybe_ignore_case(sandbox, get(item), args.truthy(0));
  };
  const Value* best = &items.front();
  Value best_key = key(*best);
  for (size_t i = 1; i < items.size(); ++i) {
    Value other = key(items[i]);
    if (!compare(sandbox, wanted, other, best_key)) continue;
    best = &items[i];
    best_key = std::move(other);
  }
  return *best;
}

// ---- mapping and selecting ----

Value map(Sandbox& sandbox, const Value& subject, const Bound& args) {
  std::vector<Value> results;
  if (!is_truthy(subject)) return sandbox.iterator({});
  Args given = args.raw();
  const auto named = [&](std::string_view name) -> std::optional<Value> {
    const auto hit = std::find_if(
        given.named.begin(), given.named.end(), [&](const auto& n) { return n.first == name; });
    if (hit == given.named.end()) return std::nullopt;
    Value value = hit->second;
    given.named.erase(hit);
    return value;
  };
  if (given.positional.empty()) {
    const auto attribute = named("attribute");
    if (!attribute) sandbox.fail("map requires a filter argument");
    auto fallback = named("default");
    if (fallback && fallback->is_none()) fallback.reset();
    if (!given.named.empty()) {
      sandbox.fail(fmt::format("Unexpected keyword argument '{}'", given.named.front().first));
    }
    const Getter get(sandbox, *attribute);
    for (const Value& item : iterate(sandbox, subject)) results.push_back(get(item, fallback));
    return sandbox.iterator(std::move(results));
  }
  const std::string name = to_str(sandbox, given.positional.front());
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) sandbox.fail(no_filter_message(name));
  given.positional.erase(given.positional.begin());
  const auto level = sandbox.enter_eval();  // map("map", "map", ...) recurses
  for (const Value& item : iterate(sandbox, subject)) {
    results.push_back(call(sandbox, *filter, item, given));
  }
  return sandbox.iterator(std::move(results));
}

// select, reject (has_attribute = false), selectattr, rejectattr (true).
template <bool has_attribute, bool wanted>
Value pick(Sandbox& sandbox, const Value& subject, const Bound& args) {
  if (!is_truthy(subject)) return sandbox.iterator({});
  Args given = args.raw();
  const auto take = [&] {
    Value value = given.positional.front();
    given.positional.erase(given.positional.begin());
    return value;
  };
  Value attribute;
  if (has_attribute) {
    if (given.positional.empty()) sandbox.fail("Missing parameter for attribute name");
    attribute = take();
  }
  const Getter get(sandbox, attribute);
  const Builtin* test = nullptr;
  if (!given.positional.empty()) {
    const std::string name = to_str(sandbox, take());
    test = find_test(name);
    if (test == nullptr) sandbox.fail(fmt::format("No test named '{}'.", name));
  }
  std::vector<Value> picked;
  for (const Value& item : iterate(sandbox, subject)) {
    const Value tested = get(item);
    const bool holds = is_truthy(test == nullptr ? tested : call(sandbox, *test, tested, given));
    if (holds == wanted) picked.push_back(item);
  }
  return sandbox.iterator(std::move(picked));
}

// ---- order ----

using Keyed = std::pair<Value, Value>;  // sort key, item

Value sorted(Sandbox& sandbox, std::vector<Keyed> keyed, bool is_reverse) {
  sandbox.charge(keyed.size());
  // Python's descending sort is stable too: equal items keep their order.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return is_reverse ? compare(sandbox, Comparison::less, b.first, a.first)
                      : compare(sandbox, Comparison::less, a.first, b.first);
  });
  std::vector<Value> items;
  for (auto& entry : keyed) items.push_back(std::move(entry.second));
  return sandbox.list(std::move(items));
}

Value sort(Sandbox& sandbox, const Value& subject, const Bound& args) {
  std::vector<Getter> getters;
  const Value attribute = args.value_or(2, Value());
  if (const Text* paths = attribute.text()) {
    std::string_view rest = paths->bytes;
    for (bool has_more = true; has_more;) {
      const size_t comma = rest.find(',');
      has_more = comma != std::string_view::npos;
      getters.emplace_back(sandbox, sandbox.text(std::string(rest.substr(0, comma))));
      if (has_more) rest.remove_prefix(comma + 1);
    }
  } else {
    getters.emplace_back(sandbox, attribute);
  }
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(sandbox, subject)) {
    std::vector<Value> key;
    for (const Getter& get : getters) {
      key.push_back(maybe_ignore_case(sandbox, get(item), args.truthy(1)));
    }
    keyed.emplace_back(sandbox.list(std::move(key)), item);
  }
  return sorted(sandbox, std::move(keyed), args.truthy(0));
}

const Dict& require_dict(Sandbox& sandbox, const Value& value, std::string_view who) {
  require_defined(sandbox, value);
  if (const Dict* dict = value.dict()) return *dict;
  sandbox.fail(fmt::format("{} needs a mapping, not {}", who, type_name(value)));
}

Value dictsort(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Dict& dict = require_dict(sandbox, subject, "dictsort");
  const std::string by = args.has(1) ? to_str(sandbox, args[1]) : "key";
  if (by != "key" && by != "value") {
    sandbox.fail("You can only sort by either \"key\" or \"value\"");
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : dict.entries()) {
    const Value& sort_key = by == "key" ? key : value;
    keyed.emplace_back(maybe_ignore_case(sandbox, sort_key, args.truthy(0)),
                       sandbox.tuple({key, value}));
  }
  return sorted(sandbox, std::move(keyed), args.truthy(2));
}

Value reverse(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (subject.is_text()) {
    return slice(sandbox, subject, Value(), Value(), Value(int64_t{-1}));
  }
  require_defined(sandbox, is_iterable(subject) ? Value() : subject);
  auto items = iterate(sandbox, subject);
  std::reverse(items.begin(), items.end());
  // A generator cannot be reversed lazily, so jinja2 makes a list of it.
  if (subject.iterator() != nullptr) return sandbox.list(std::move(items));
  return sandbox.iterator(std::move(items));
}

Value unique(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Getter get(sandbox, args.value_or(1, Value()));
  Dict seen;
  std::vector<Value> items;
  for (const Value& item : iterate(sandbox, subject)) {
    const Value key = maybe_ignore_case(sandbox, get(item), args.truthy(0));
    if (!is_hashable(key)) sandbox.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    sandbox.charge_walk(key);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value());
    items.push_back(item);
  }
  return sandbox.iterator(std::move(items));
}

// ---- building ----

Value list(Sandbox& sandbox, const Value& subject, const Bound&) {
  return sandbox.list(iterate(sandbox, subject));
}

Value items(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (subject.is_undefined()) return sandbox.iterator({});
  std::vector<Value> pairs;
  for (const auto& [key, value] : require_dict(sandbox, subject, "items").entries()) {
    pairs.push_back(sandbox.tuple({key, value}));
  }
  return sandbox.iterator(std::move(pairs));
}

Value join(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Getter get(sandbox, args.value_or(1, Value()));
  std::vector<std::string> parts;
  uint64_t total = 0;
  for (const Value& item : iterate(sandbox, subject)) {
    parts.push_back(to_str(sandbox, get(item)));
    total += parts.back().size();
    sandbox.check_text_size(total);
  }
  const std::string separator = args.has(0) ? to_str(sandbox, args[0]) : "";
  return sandbox.text(join_texts(sandbox, separator, parts));
}

Value sum(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Getter get(sandbox, args.value_or(0, Value()));
  Value total = args.value_or(1, Value(int64_t{0}));
  if (total.is_text()) sandbox.fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : iterate(sandbox, subject)) {
    total = binary(sandbox, BinaryOp::add, total, get(item));
  }
  return total;
}

Value batch(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const int64_t count = require_integer(sandbox, args[0], "linecount");
  std::vector<Value> batches;
  std::vector<Value> current;
  for (const Value& item : iterate(sandbox, subject)) {
    if (static_cast<int64_t>(current.size()) == count) {
      batches.push_back(sandbox.list(std::exchange(current, {})));
    }
    current.push_back(item);
  }
  if (!current.empty()) {
    if (args.is_given(1) && static_cast<int64_t>(current.size()) < count) {
      sandbox.check_item_count(static_cast<uint64_t>(count));
      current.resize(static_cast<size_t>(count), args[1]);
    }
    batches.push_back(sandbox.list(std::move(current)));
  }
  return sandbox.iterator(std::move(batches));
}

Value slice_filter(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const auto items = iterate(sandbox, subject);
  const int64_t slices = require_integer(sandbox, args[0], "slices");
  if (slices == 0) sandbox.fail("integer division or modulo by zero");
  std::vector<Value> results;
  sandbox.check_item_count(static_cast<uint64_t>(std::max<int64_t>(0, slices)));
  size_t start = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const auto count = static_cast<int64_t>(items.size());
    const bool is_longer = i < count % slices;
    const auto size = static_cast<size_t>(count / slices + (is_longer ? 1 : 0));
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(start),
                            items.begin() + static_cast<std::ptrdiff_t>(start + size));
    start += size;
    if (args.is_given(1) && !is_longer) part.push_back(args[1]);
    results.push_back(sandbox.list(std::move(part)));
  }
  return sandbox.iterator(std::move(results));
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"batch", "linecount fill_with", 1, batch},
    {"dictsort", "case_sensitive by reverse", 0, dictsort},
    {"first", "", 0, first},
    {"items", "", 0, items},
    {"join", "d attribute", 0, join},
    {"last", "", 0, last},
    {"list", "", 0, list},
    {"map", "*", 0, map},
    {"max", "case_sensitive attribute", 0, extreme<Comparison::greater>},
    {"min", "case_sensitive attribute", 0, extreme<Comparison::less>},
    {"reject", "*", 0, pick<false, false>},
    {"rejectattr", "*", 0, pick<true, false>},
    {"reverse", "", 0, reverse},
    {"select", "*", 0, pick<false, true>},
    {"selectattr", "*", 0, pick<true, true>},
    {"slice", "slices fill_with", 1, slice_filter},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique},
});

}  // namespace

std::span<const Builtin> sequence_filters() { return kFilters; }

}  // namespace reprise::chat_template
