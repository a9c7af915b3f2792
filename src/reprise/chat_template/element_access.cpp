#include "reprise/chat_template/element_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/chat_template/methods.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"

namespace reprise::chat_template {

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.sequence() != nullptr ||
         value.dict() != nullptr || value.iterator() != nullptr;
}

std::vector<Value> iterate(Sandbox& sandbox, const Value& value) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    items = sequence->items;
  } else if (const Dict* dict = value.dict()) {
    for (const auto& entry : dict->entries()) items.push_back(entry.first);
  } else if (const Text* text = value.text()) {
    sandbox.check_item_count(text->length);
    sandbox.charge(text->length);
    for (size_t offset = 0; offset < text->bytes.size();) {
      const size_t start = offset;
      (void)next_code_point(text->bytes, offset);
      items.push_back(sandbox.text(text->bytes.substr(start, offset - start), text->is_markup));
    }
  } else if (Iterator* iterator = value.iterator()) {
    items.assign(iterator->items.begin() + static_cast<std::ptrdiff_t>(iterator->next),
                 iterator->items.end());
    iterator->next = iterator->items.size();
  } else if (!value.is_undefined()) {
    sandbox.fail(fmt::format("'{}' object is not iterable", type_name(value)));
  }
  sandbox.charge(items.size() / 4);
  return items;
}

std::optional<int64_t> length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const Text* text = value.text()) return static_cast<int64_t>(text->length);
  if (const Sequence* sequence = value.sequence()) {
    return static_cast<int64_t>(sequence->items.size());
  }
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->size());
  if (Loop* loop = value.loop()) return loop->length();
  return std::nullopt;
}

namespace {

std::string described(const Value& value) {
  if (value.is_none()) return "None";
  return "'" + std::string(type_name(value)) + " object'";
}

Value missing_attribute(const Value& object, std::string_view name) {
  return Sandbox::undefined(fmt::format("{} has no attribute '{}'", described(object), name));
}

Value missing_element(Sandbox& sandbox, const Value& object, const Value& key) {
  if (const Text* name = key.text()) return missing_attribute(object, name->bytes);
  return Sandbox::undefined(
      fmt::format("{} has no element {}", described(object), to_repr(sandbox, key)));
}

// The element, or nullopt when Python's object[key] would raise TypeError or LookupError.
std::optional<Value> element(Sandbox& sandbox, const Value& object, const Value& key) {
  if (const Dict* dict = object.dict()) {
    if (!is_hashable(key)) return std::nullopt;
    sandbox.charge_walk(key);
    const Value* found = dict->find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  auto index = key.as_integer();
  if (!index) return std::nullopt;
  const auto length = length_of(object);
  const Sequence* sequence = object.sequence();
  const bool is_indexable = object.is_text() || (sequence != nullptr && !sequence->is_view());
  if (!is_indexable || *index >= *length || *index < -*length) return std::nullopt;
  const auto position = static_cast<size_t>(*index < 0 ? *index + *length : *index);
  if (sequence != nullptr) return sequence->items[position];
  const Text& text = *object.text();
  if (text.is_ascii()) return sandbox.text(text.bytes.substr(position, 1), text.is_markup);
  sandbox.charge_decode(text.bytes.size());
  const size_t begin = offset_of_code_point(text.bytes, position);
  size_t end = begin;
  (void)next_code_point(text.bytes, end);
  return sandbox.text(text.bytes.substr(begin, end - begin), text.is_markup);
}

}  // namespace

Value subscript(Sandbox& sandbox, const Value& object, const Value& key) {
  require_defined(sandbox, object);
  if (auto found = element(sandbox, object, key)) return *found;
  if (const Text* name = key.text()) {
    if (auto found = find_attribute(sandbox, object, name->bytes)) return *found;
  }
  return missing_element(sandbox, object, key);
}

Value attribute(Sandbox& sandbox, const Value& object, std::string_view name) {
  require_defined(sandbox, object);
  if (auto found = find_attribute(sandbox, object, name)) return *found;
  if (const Dict* dict = object.dict()) {
    sandbox.charge_scan(name.size());
    if (const Value* found = dict->find(name)) return *found;
  }
  return missing_attribute(object, name);
}

Value slice(Sandbox& sandbox,
            const Value& object,
            const Value& start,
            const Value& stop,
            const Value& step) {
  require_defined(sandbox, object);
  const Sequence* sequence = object.sequence();
  if (!object.is_text() && (sequence == nullptr || sequence->is_view())) {
    sandbox.fail(fmt::format("'{}' object cannot be sliced", type_name(object)));
  }
  const auto bound = [&](const Value& value) -> std::optional<int64_t> {
    if (value.is_none()) return std::nullopt;
    return require_integer(sandbox, value, "slice indices");
  };
  const int64_t length = *length_of(object);
  // A step larger than the length selects the same items as length + 1. The smaller step keeps the
  // sums below from overflowing.
  int64_t by = bound(step).value_or(1);
  if (by == 0) sandbox.fail("slice step cannot be zero");
  by = std::clamp(by, -length - 1, length + 1);
  const int64_t lowest = by < 0 ? -1 : 0;
  const int64_t highest = by < 0 ? length - 1 : length;
  const auto adjust = [&](std::optional<int64_t> value, int64_t fallback) {
    if (!value) return fallback;
    const int64_t from_start = *value < 0 ? std::max(*value, -length - 1) + length : *value;
    return std::clamp(from_start, lowest, highest);
  };
  const int64_t first = adjust(bound(start), by < 0 ? highest : 0);
  const int64_t last = adjust(bound(stop), by < 0 ? -1 : length);

  if (const Text* text = object.text()) {
    sandbox.charge_decode(text->is_ascii() && by == 1 ? 0 : text->bytes.size());
    if (by == 1) {
      if (first >= last) return sandbox.text("", text->is_markup);
      const size_t begin = text->offset_of(first);
      return sandbox.text(text->bytes.substr(begin, text->offset_of(last) - begin),
                          text->is_markup);
    }
    std::u32string code_points;
    for (size_t at = 0; at < text->bytes.size();)
      code_points.push_back(next_code_point(text->bytes, at));
    std::string picked;
    for (int64_t i = first; by > 0 ? i < last : i > last; i += by) {
      append_utf8(code_points[static_cast<size_t>(i)], picked);
    }
    return sandbox.text(std::move(picked), text->is_markup);
  }
  Sequence picked{.items = {}, .flavor = sequence->flavor};
  for (int64_t i = first; by > 0 ? i < last : i > last; i += by) {
    picked.items.push_back(sequence->items[static_cast<size_t>(i)]);
  }
  if (picked.flavor == Sequence::Flavor::range) {
    picked.start = sequence->start + first * sequence->step;
    picked.stop = sequence->start + last * sequence->step;
    picked.step = sequence->step * by;
  }
  return sandbox.sequence(std::move(picked));
}

}  // namespace reprise::chat_template
