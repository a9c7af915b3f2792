#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/structured_fields.h"

namespace reprise::server {

inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolBytes = size_t{64} << 10;  // of all tools, as JSON

/// The tools of a chat request and what the model may do with them.
struct ToolUse {
  enum class Choice : uint8_t { none, automatic, required, named };

  Json tools = Json::array();  // as given, for the template
  Choice choice = Choice::none;
  std::string name;  // of the one that is to be called
  bool parallel = true;

  [[nodiscard]] bool is_forced() const noexcept {
    return choice == Choice::required || choice == Choice::named;
  }
};

/// tools, tool_choice and parallel_tool_calls. \throws ApiError 400
[[nodiscard]] ToolUse read_tool_use(const RequestFields& fields);
/// What a forced call has to look like: the arguments of the named tool, or an array of calls.
[[nodiscard]] std::optional<AskedOutput> forced_call(const ToolUse& use);
/// Of an assistant's message, as templates want it: with arguments as objects. `place`:
/// "messages[0].tool_calls". \throws ApiError 400
[[nodiscard]] Json read_past_calls(const Json& calls, const std::string& place);

}  // namespace reprise::server
