#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::bench {

/// What one event of an OpenAI stream says, as far as a client that measures cares.
struct StreamMessage {
  bool has_choice = false;
  std::string text;  // of the first choice
  std::optional<int64_t> completion_tokens;
  std::string error;
};
/// Of completions ("text") and of chats ("delta"). \throws InvalidArgument when it is no JSON
[[nodiscard]] StreamMessage parse_stream_message(std::string_view json);

/// Cuts a body into server-sent events. Comments and "[DONE]" are swallowed.
class StreamReader {
 public:
  explicit StreamReader(std::function<void(std::string_view data)> on_data)
      : on_data_(std::move(on_data)) {}

  /// \throws InvalidArgument when one event grows beyond 16 MiB
  void feed(std::string_view piece);
  /// What came without an empty line after it.
  void finish();

  [[nodiscard]] bool is_done() const noexcept { return is_done_; }

 private:
  void take(std::string_view event);

  std::function<void(std::string_view)> on_data_;
  std::string buffer_;
  bool is_done_ = false;  // "[DONE]" came
};

}  // namespace reprise::bench
