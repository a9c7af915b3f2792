#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "reprise/base/json.h"
#include "reprise/structured_output/automaton.h"

namespace reprise::structured_output {

/// Whether two values are equal in JSON: 1 equals 1.0, and the order of members does not matter.
[[nodiscard]] bool are_equal(const Json& left, const Json& right);

/// The schema inside `root` to which a `$ref` refers: a JSON pointer (percent escapes are read), an
/// `$anchor`, or an `$id`. \throws InvalidArgument if there is none
[[nodiscard]] const Json& referenced(const Json& root, const std::string& reference);

/// Decides whether a value is valid under a JSON schema, for rules that masks cannot enforce while
/// a value is written. `format` is an annotation. Thread-safe.
class SchemaValidator {
 public:
  explicit SchemaValidator(Json root) : root_(std::move(root)) {}

  /// `schema` is a part of the root. \throws InvalidArgument if a keyword is malformed or unknown,
  /// or if references form a circle
  [[nodiscard]] bool is_valid(const Json& value, const Json& schema) const;
  /// Compiles all patterns of a schema, so that is_valid() need not do it.
  void prepare(const Json& schema, WorkLimit* limit) const;
  [[nodiscard]] const Json& root() const { return root_; }

 private:
  class Run;

  enum class Match : uint8_t { no, unclear, yes };
  struct Pattern {
    std::shared_ptr<const Automaton> narrow;
    std::shared_ptr<const Automaton> wide;
  };

  [[nodiscard]] Pattern compiled(const std::string& pattern, WorkLimit* limit) const;
  [[nodiscard]] Match match(const std::string& pattern, const std::string& text) const;

  Json root_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Pattern> patterns_;
};

}  // namespace reprise::structured_output
