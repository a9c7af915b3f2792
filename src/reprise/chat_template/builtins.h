#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/chat_template/sandbox.h"

/// The filters, tests, methods and global functions that a template can use. Each is one line of a
/// table in its file.
namespace reprise::chat_template {

/// The arguments of a call, in the order of the template's text.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// The arguments of a call, matched with the parameters of a Builtin.
class Bound {
 public:
  Bound(Sandbox& sandbox, const Builtin& builtin, const Args& args);

  [[nodiscard]] bool has(size_t index) const {
    return index < values_.size() && values_[index].has_value();
  }
  /// \pre has(index)
  [[nodiscard]] const Value& operator[](size_t index) const { return *values_[index]; }
  /// True when the argument was passed and is not none.
  [[nodiscard]] bool is_given(size_t index) const {
    return has(index) && !values_[index]->is_none();
  }
  [[nodiscard]] Value value_or(size_t index, Value fallback) const {
    return has(index) ? *values_[index] : std::move(fallback);
  }
  [[nodiscard]] bool truthy(size_t index) const { return has(index) && is_truthy(*values_[index]); }
  /// The arguments before matching, for variadic functions.
  [[nodiscard]] const Args& raw() const { return *raw_; }

 private:
  std::vector<std::optional<Value>> values_;
  const Args* raw_;  // owned by the caller, alive during the call
};

struct Builtin {
  std::string_view name;
  /// Parameter names, space separated; "/name" is positional only; "*" takes anything.
  std::string_view params;
  size_t required;
  /// `subject` is the value left of the filter, test or dot; none for global functions.
  Value (*function)(Sandbox& sandbox, const Value& subject, const Bound& args);
};

[[nodiscard]] Value call(Sandbox& sandbox,
                         const Builtin& builtin,
                         const Value& subject,
                         const Args& args);

// Null when there is no filter with this name.
[[nodiscard]] const Builtin* find_filter(std::string_view name);
[[nodiscard]] const Builtin* find_test(std::string_view name);
[[nodiscard]] const Builtin* find_global(std::string_view name);
[[nodiscard]] const Builtin* find_in(std::span<const Builtin> table, std::string_view name);

/// The message for an unknown filter. A filter that jinja2 has and this engine lacks gets its own
/// message.
[[nodiscard]] std::string no_filter_message(std::string_view name);

}  // namespace reprise::chat_template
