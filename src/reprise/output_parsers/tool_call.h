#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

inline constexpr std::string_view kBlanks = " \t\r\n";
/// A longer call is treated as text that lacks the end marker.
inline constexpr size_t kMaxCallBytes = size_t{1} << 20;

/// One tool call that was read as a whole.
struct Call {
  std::string name;
  std::string arguments;  // JSON text

  friend bool operator==(const Call&, const Call&) = default;
};

[[nodiscard]] std::string_view trimmed(std::string_view text);
/// nullopt if `text` is not strict JSON.
[[nodiscard]] std::optional<Json> json_of(std::string_view text);
/// Compact JSON; bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string compact(const Json& json);
/// Returns nullopt unless `name` can be the name of a function and `arguments` is a JSON object.
[[nodiscard]] std::optional<Call> call_with_object(std::string_view name,
                                                   std::string_view arguments);
/// Reads {"name": ..., "arguments" or "parameters": ...}, also with Cohere's "tool_name".
[[nodiscard]] std::optional<Call> call_of(const Json& json);
[[nodiscard]] std::optional<Call> call_of(std::string_view text);

/// Numbers calls, and removes blanks between calls from the content.
class CallWriter {
 public:
  void add(Call call, MessageDelta& out);
  void add_content(std::string_view text, MessageDelta& out);
  [[nodiscard]] int num_calls() const noexcept { return num_calls_; }

 private:
  int num_calls_ = 0;
  std::string held_blanks_;  // blanks after a call: they are content only if text follows
};

}  // namespace reprise::output_parsers
