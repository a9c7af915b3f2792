#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::weights {

/// Like parse_json(), but a failure has a code: \throws FileError(code, path). The document must be
/// an object. Infinity, -Infinity and NaN, which JSON does not have but Python writes, are read as
/// strings.
[[nodiscard]] Json parse_json_file(std::string_view text,
                                   std::string_view path,
                                   std::string_view code);

/// Typed, range-checked access to the members of one JSON object of a configuration file.
///
/// A member that is absent or null is "not given". Integers need integer syntax (2.0, true and "2"
/// are refused). Every refusal is a FileError E_CONFIG that names the member. Borrows the object
/// and the path for its own life.
class ConfigReader {
 public:
  /// `prefix` comes before member names in messages: "rope_scaling.".
  ConfigReader(const Json& object, std::string_view path, std::string_view prefix = "")
      : object_(object), path_(path), prefix_(prefix) {}

  /// From now on, adds the name of each member that is read to `names`. Borrowed.
  void remember_names(std::set<std::string, std::less<>>& names) { names_ = &names; }

  [[nodiscard]] bool has(std::string_view key) const;          // present, null or not
  [[nodiscard]] const Json* find(std::string_view key) const;  // nullptr when not given

  [[nodiscard]] std::optional<int64_t> integer(std::string_view key,
                                               int64_t least,
                                               int64_t most) const;
  [[nodiscard]] int64_t required_integer(std::string_view key, int64_t least, int64_t most) const;
  /// Finite and in [least, most].
  [[nodiscard]] std::optional<double> number(std::string_view key, double least, double most) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> string(std::string_view key) const;
  /// One integer or a list of at most `max_count` integers; empty when not given.
  [[nodiscard]] std::vector<int64_t> integers(std::string_view key,
                                              int64_t least,
                                              int64_t most,
                                              size_t max_count) const;
  /// The object under `key`, with a reader of its own.
  [[nodiscard]] std::optional<ConfigReader> object(std::string_view key) const;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  [[nodiscard]] int64_t to_integer(std::string_view key,
                                   const Json& value,
                                   int64_t least,
                                   int64_t most) const;

  const Json& object_;
  std::string path_;
  std::string prefix_;
  std::set<std::string, std::less<>>* names_ = nullptr;  // that were asked for; nullptr: not kept
};

}  // namespace reprise::weights
