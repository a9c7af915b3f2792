#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/base/text/utf8.h"

namespace reprise::chat_template {

class Value;
class Dict;
class Loop;
struct Callable;
struct Iterator;
struct Namespace;
struct Sequence;
struct Text;

/// A missing name, attribute or element. It prints as an empty text, is false and iterates as an
/// empty list; any other use is an error with `message`.
struct Undefined {
  std::shared_ptr<const std::string> message;
};
struct None {};

/// The value of an expression in a template: the kinds of Python values that a template can use.
/// Cheap to copy; strings, sequences and dicts are immutable and shared. No value gives access to
/// an object of the host program.
class Value {
 public:
  Value() : data_(None{}) {}
  // One explicit constructor per type: a const char* must not become a bool.
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(Undefined value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Text> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Sequence> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Callable> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Namespace> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Iterator> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Loop> value) : data_(std::move(value)) {}
  Value(const void*) = delete;

  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<None>(data_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(data_); }
  [[nodiscard]] bool is_float() const { return std::holds_alternative<double>(data_); }
  /// True for an int but not for a bool, although Python's bool is an int; see as_integer().
  [[nodiscard]] bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  [[nodiscard]] bool is_number() const { return is_int() || is_float() || is_bool(); }
  [[nodiscard]] bool is_text() const { return text() != nullptr; }

  [[nodiscard]] bool as_bool() const { return std::get<bool>(data_); }
  [[nodiscard]] double as_float() const { return std::get<double>(data_); }
  /// int or bool.
  [[nodiscard]] std::optional<int64_t> as_integer() const {
    if (const auto* value = std::get_if<int64_t>(&data_)) return *value;
    if (const auto* value = std::get_if<bool>(&data_)) return *value ? 1 : 0;
    return std::nullopt;
  }

  /// int, bool or float; long double holds every int64 and every double exactly. \pre is_number()
  [[nodiscard]] long double as_number() const {
    const auto integer = as_integer();
    return integer ? static_cast<long double>(*integer) : as_float();
  }

  // Null when the value is of another kind. The pointee lives as long as this value.
  [[nodiscard]] const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  [[nodiscard]] const Text* text() const { return pointee<const Text>(); }
  [[nodiscard]] const Sequence* sequence() const { return pointee<const Sequence>(); }
  [[nodiscard]] const Dict* dict() const { return pointee<const Dict>(); }
  [[nodiscard]] const Callable* callable() const { return pointee<const Callable>(); }
  [[nodiscard]] Namespace* name_space() const { return pointee<Namespace>(); }
  [[nodiscard]] Iterator* iterator() const { return pointee<Iterator>(); }
  [[nodiscard]] Loop* loop() const { return pointee<Loop>(); }
  /// The address of a shared object (for `is sameas`); null for plain values.
  [[nodiscard]] const void* identity() const;
  /// Index of the variant's alternative: values of the same kind have the same index.
  [[nodiscard]] size_t kind() const { return data_.index(); }

 private:
  template <typename T>
  [[nodiscard]] T* pointee() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }

  std::variant<Undefined,
               None,
               bool,
               int64_t,
               double,
               std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>,
               std::shared_ptr<const Dict>,
               std::shared_ptr<const Callable>,
               std::shared_ptr<Namespace>,
               std::shared_ptr<Iterator>,
               std::shared_ptr<Loop>>
      data_;
};

/// The size of a value with everything in it. A shared part counts each time it occurs. The depth
/// bounds the recursion over the value; the weight bounds the cost of comparing, printing or
/// hashing it.
struct Extent {
  int depth = 0;
  uint64_t weight = 1;  // saturates far above every limit

  void add(const Extent& part);
};

struct Text {
  std::string bytes;       // UTF-8
  size_t length = 0;       // in code points
  bool is_markup = false;  // result of |safe or |escape: `+` escapes the other operand

  [[nodiscard]] bool is_ascii() const { return length == bytes.size(); }
  /// Byte offset of code point `index`. \pre 0 <= index <= length
  [[nodiscard]] size_t offset_of(int64_t index) const {
    const auto position = static_cast<size_t>(index);
    return is_ascii() ? position : offset_of_code_point(bytes, position);
  }
};

struct Sequence {
  enum class Flavor { list, tuple, range, keys, values, items };  // in the order of type_name()

  std::vector<Value> items;
  Flavor flavor = Flavor::list;
  Extent extent{.depth = 1};
  int64_t start = 0, stop = 0, step = 1;  // Flavor::range only, for printing

  [[nodiscard]] bool is_view() const { return flavor >= Flavor::keys; }
};

/// Insertion-ordered, keyed by any hashable value; 1, 1.0 and true are one key, as in Python.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  /// A repeated key takes the last value and keeps the first position. \pre key is hashable
  void set(Value key, Value value);
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] size_t size() const { return entries_.size(); }

  [[nodiscard]] const Extent& extent() const { return extent_; }

 private:
  // With fewer entries a linear scan is faster than hashing.
  static constexpr size_t kIndexFrom = 9;
  [[nodiscard]] size_t position(const Value& key) const;

  Extent extent_{.depth = 1};
  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, size_t> index_;  // hash -> position, once kIndexFrom is reached
};

/// The only mutable object of a template: `{% set ns.x = 1 %}`.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// The result of map, select, reverse, ...: a template can read each item once.
struct Iterator {
  std::vector<Value> items;
  size_t next = 0;
  Extent extent{.depth = 1};
};

struct Builtin;
struct MacroClosure;

/// A value that a template may call: a global function, a method bound to its value, or a macro.
struct Callable {
  std::string name;
  const Builtin* builtin = nullptr;           // static storage; null for macros
  Value self;                                 // methods: the value left of the dot
  std::shared_ptr<const MacroClosure> macro;  // null for builtins
};

/// The variable `loop`. It takes items one by one, so the loop's `if` sees the effects of the body
/// on earlier items.
class Loop {
 public:
  Loop(std::vector<Value> items, std::function<bool(const Value&)> accepts)
      : items_(std::move(items)), accepts_(std::move(accepts)) {}

  /// Moves to the next accepted item; nullopt at the end.
  std::optional<Value> advance();
  /// The item after the current one, without moving.
  const std::optional<Value>& peek();
  [[nodiscard]] int64_t length();
  /// Ends the loop: takes no more items, although the object may live on.
  void finish();

  int64_t index0 = -1;
  std::optional<Value> previous;
  std::optional<Value> current;
  std::optional<Value> last_changed;  // argument tuple of loop.changed()

 private:
  std::optional<Value> pull();

  std::vector<Value> items_;
  size_t position_ = 0;
  std::function<bool(const Value&)> accepts_;  // empty: accepts every item
  std::optional<std::optional<Value>> after_;  // the outer optional is set after peek()
  std::optional<int64_t> length_;
};

/// "str", "list", "dict", ...: Python's name of the type, for messages.
[[nodiscard]] std::string_view type_name(const Value& value);
[[nodiscard]] bool is_truthy(const Value& value);
[[nodiscard]] bool is_hashable(const Value& value);
/// Python's `==`. The cost is at most the smaller weight; compare() of operators.h charges it.
[[nodiscard]] bool equals(const Value& left, const Value& right);
[[nodiscard]] size_t hash(const Value& value);
[[nodiscard]] Extent extent_of(const Value& value);

/// Makes a value outside of a render (a literal of the AST, converted JSON), which no Sandbox
/// counts.
[[nodiscard]] Value make_text(std::string bytes, bool is_markup = false);

}  // namespace reprise::chat_template
