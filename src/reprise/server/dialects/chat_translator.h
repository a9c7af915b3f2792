#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {

/// Writes the answer of a chat in the form of another API. One object for each request; I/O thread
/// only. A streamed chat must be asked for usage with each chunk.
class ChatTranslator {
 public:
  virtual ~ChatTranslator() = default;

  /// `completion`: an object "chat.completion", or "text_completion" for a text.
  [[nodiscard]] virtual Json whole(const Json& completion) = 0;
  [[nodiscard]] virtual std::string_view stream_type() const { return "text/event-stream"; }
  /// Returns the text to send for a "chat.completion.chunk", or for a part of a
  /// "text_completion"; may be empty.
  [[nodiscard]] virtual std::string chunk(const Json& chunk) = 0;
  /// Returns the text to send after the last chunk.
  [[nodiscard]] virtual std::string end() = 0;
  /// Returns the text that ends a failed stream. `error`: the error object of OpenAI's API.
  [[nodiscard]] virtual std::string error(const Json& error) = 0;
};

/// Replaces an image in the result of a tool. Refusing it would end an agent's session, because the
/// agent sends that result again with every further request.
inline constexpr std::string_view kImageLeftOut = "[An image, which this model cannot read.]";

/// A request of another API as a chat, or as a text to be continued.
struct TranslatedChat {
  Json body;                               // of POST /v1/chat/completions, or /v1/completions
  std::vector<std::string> unused_fields;  // of the request as it came
  std::unique_ptr<ChatTranslator> answer;
  bool is_text = false;
  std::span<const FieldName> names = {};  // those that differ; errors name the client's field
};

/// An event of a stream with a name, as in Anthropic's API and OpenAI's Responses API. The name is
/// the member "type" of `data`.
[[nodiscard]] std::string named_event(const Json& data);

}  // namespace reprise::server
