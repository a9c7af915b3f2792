#include "reprise/chat_template/value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {

const void* Value::identity() const {
  return std::visit(
      [](const auto& held) -> const void* {
        if constexpr (requires { held.get(); }) {
          return held.get();
        } else {
          return nullptr;
        }
      },
      data_);
}

Value make_text(std::string bytes, bool is_markup) {
  const size_t length = count_code_points(bytes);
  return Value(std::make_shared<const Text>(Text{std::move(bytes), length, is_markup}));
}

void Extent::add(const Extent& part) {
  depth = std::max(depth, part.depth + 1);
  constexpr uint64_t kSaturated = uint64_t{1} << 62;
  weight = std::min(kSaturated, weight + part.weight);
}

void Dict::set(Value key, Value value) {
  extent_.add(extent_of(key));
  extent_.add(extent_of(value));
  const size_t at = position(key);
  if (at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() == kIndexFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(hash(entries_[i].first), i);
  } else if (entries_.size() > kIndexFrom) {
    index_.emplace(hash(entries_.back().first), entries_.size() - 1);
  }
}

size_t Dict::position(const Value& key) const {
  if (index_.empty()) {
    const auto hit = std::find_if(
        entries_.begin(), entries_.end(), [&](const Entry& e) { return equals(e.first, key); });
    return static_cast<size_t>(hit - entries_.begin());
  }
  const auto [begin, end] = index_.equal_range(hash(key));
  for (auto it = begin; it != end; ++it) {
    if (equals(entries_[it->second].first, key)) return it->second;
  }
  return entries_.size();
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position(key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries_) {
      if (const Text* text = name.text(); text != nullptr && text->bytes == key) return &value;
    }
    return nullptr;
  }
  return find(make_text(std::string(key)));
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, held] : attributes) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

std::optional<Value> Loop::pull() {
  while (position_ < items_.size()) {
    Value item = items_[position_++];
    if (!accepts_ || accepts_(item)) return item;
  }
  return std::nullopt;
}

std::optional<Value> Loop::advance() {
  std::optional<Value> item;
  if (after_.has_value()) {
    item = std::move(*after_);
    after_.reset();
  } else {
    item = pull();
  }
  if (!item.has_value()) return item;
  ++index0;
  previous = std::move(current);
  current = item;
  return item;
}

const std::optional<Value>& Loop::peek() {
  if (!after_.has_value()) after_ = pull();
  return *after_;
}

int64_t Loop::length() {
  if (length_.has_value()) return *length_;
  // Asking for the length runs the filter once over all remaining items, like in jinja2.
  std::vector<Value> rest;
  while (auto item = pull()) rest.push_back(std::move(*item));
  const bool has_peeked_item = after_.has_value() && after_->has_value();
  length_ = static_cast<int64_t>(rest.size()) + index0 + 1 + (has_peeked_item ? 1 : 0);
  items_ = std::move(rest);
  position_ = 0;
  accepts_ = nullptr;
  return *length_;
}

void Loop::finish() {
  // Loop objects may refer to each other. Clearing all members keeps them from forming a chain that
  // grows until the render ends.
  items_.clear();
  position_ = 0;
  accepts_ = nullptr;
  previous.reset();
  current.reset();
  last_changed.reset();
  after_.reset();
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (const Text* text = value.text()) return text->is_markup ? "Markup" : "str";
  if (value.dict() != nullptr) return "dict";
  if (value.name_space() != nullptr) return "Namespace";
  if (value.iterator() != nullptr) return "generator";
  if (value.loop() != nullptr) return "LoopContext";
  if (const Callable* callable = value.callable()) {
    return callable->macro != nullptr ? "Macro" : "builtin_function_or_method";
  }
  static constexpr std::array<std::string_view, 6> kFlavors = {
      "list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
  return kFlavors[static_cast<size_t>(value.sequence()->flavor)];
}

bool is_truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto integer = value.as_integer()) return *integer != 0;
  if (value.is_float()) return value.as_float() != 0.0;
  if (const Text* text = value.text()) return !text->bytes.empty();
  if (const Sequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const Dict* dict = value.dict()) return dict->size() != 0;
  if (Loop* loop = value.loop()) return loop->length() != 0;
  return true;
}

bool is_hashable(const Value& value) {
  if (value.dict() != nullptr) return false;
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->flavor == Sequence::Flavor::range) return true;
    return sequence->flavor == Sequence::Flavor::tuple &&
           std::all_of(sequence->items.begin(), sequence->items.end(), is_hashable);
  }
  return true;
}

namespace {

bool sequences_equal(const Sequence& left, const Sequence& right) {
  if (left.flavor != right.flavor || left.items.size() != right.items.size()) return false;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), equals);
}

bool dicts_equal(const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && equals(entry.second, *other);
  });
}

}  // namespace

bool equals(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    return left.as_number() == right.as_number();
  }
  if (left.kind() != right.kind()) return false;
  if (left.is_undefined() || left.is_none()) return true;
  if (left.is_text()) return left.text()->bytes == right.text()->bytes;
  if (left.identity() == right.identity()) return true;
  if (left.sequence() != nullptr) return sequences_equal(*left.sequence(), *right.sequence());
  if (left.dict() != nullptr) return dicts_equal(*left.dict(), *right.dict());
  return false;
}

namespace {

// std::hash of an integer is the integer itself, so the items of range(0, n, bucket_count) would
// all be in one bucket.
size_t hash_integer(int64_t value) {  // Source: splitmix64, Steele et al. 2014
  uint64_t z = static_cast<uint64_t>(value) + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

size_t hash(const Value& value) {
  if (const auto integer = value.as_integer()) return hash_integer(*integer);
  if (value.is_float()) {
    const double number = value.as_float();
    const bool is_whole = std::trunc(number) == number && std::abs(number) < 9e18;
    return is_whole ? hash_integer(static_cast<int64_t>(number)) : std::hash<double>{}(number);
  }
  if (const Text* text = value.text()) return std::hash<std::string>{}(text->bytes);
  if (const Sequence* sequence = value.sequence()) {
    size_t mixed = 0x9E3779B97F4A7C15;
    for (const Value& item : sequence->items) mixed = mixed * 31 + hash(item);
    return mixed;
  }
  return std::hash<const void*>{}(value.identity());
}

Extent extent_of(const Value& value) {
  if (const Text* text = value.text()) return {.weight = 1 + text->bytes.size() / 64};
  if (const Sequence* sequence = value.sequence()) return sequence->extent;
  if (const Dict* dict = value.dict()) return dict->extent();
  if (const Iterator* iterator = value.iterator()) return iterator->extent;
  if (const Callable* callable = value.callable()) {
    Extent extent{.depth = 1};
    extent.add(extent_of(callable->self));
    return extent;
  }
  return {};  // namespaces and loops are emptied by their owners, so their content is not counted
}

}  // namespace reprise::chat_template
