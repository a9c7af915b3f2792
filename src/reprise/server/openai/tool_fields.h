#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/structured_fields.h"

namespace reprise::server {

inline constexpr size_t kMaxTools = 128;
// limit on the size of all tools together, as JSON
inline constexpr size_t kMaxToolBytes = size_t{512} << 10;

/// The tools of a chat request, and how the model may use them.
struct ToolUse {
  enum class Choice : uint8_t { none, automatic, required, named };

  Json tools = Json::array();  // unchanged, for the template
  Choice choice = Choice::none;
  std::string name;  // of the tool that must be called
  bool parallel = true;

  [[nodiscard]] bool is_forced() const noexcept {
    return choice == Choice::required || choice == Choice::named;
  }
};

/// Reads tools, tool_choice and parallel_tool_calls. \throws ApiError 400
[[nodiscard]] ToolUse read_tool_use(const RequestFields& fields);
/// The required form of a forced call: the arguments of the named tool, or an array of calls.
[[nodiscard]] std::optional<AskedOutput> forced_call(const ToolUse& use);
/// Checks the tool calls of an assistant's message; arguments stay JSON text or an object. `place`:
/// "messages[0].tool_calls". \throws ApiError 400
[[nodiscard]] Json read_past_calls(const Json& calls, const std::string& place);

}  // namespace reprise::server
