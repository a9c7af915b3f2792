#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::api {

/// The form in which a template gets the content of messages; vLLM's
/// --chat-template-content-format.
enum class ContentFormat : uint8_t {
  automatic,  // text stays text and a list of parts a list, where the template takes them
  string,     // always text
  openai,     // always a list of parts
};

/// auto, string or openai. `option`: the name of the value in messages. \throws InvalidArgument
[[nodiscard]] ContentFormat parse_content_format(std::string_view option, std::string_view text);

}  // namespace reprise::api
