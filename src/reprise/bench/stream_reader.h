#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::bench {

/// The parts of one event of an OpenAI stream that a benchmark client needs.
struct StreamMessage {
  bool has_choice = false;
  std::string text;  // of the first choice
  std::optional<int64_t> completion_tokens;
  std::string error;
};
/// Reads an event of a completion ("text") or of a chat ("delta"). \throws InvalidArgument when the
/// event is not JSON
[[nodiscard]] StreamMessage parse_stream_message(std::string_view json);

/// Cuts a body into server-sent events. Comments and "[DONE]" give no event.
class StreamReader {
 public:
  explicit StreamReader(std::function<void(std::string_view data)> on_data)
      : on_data_(std::move(on_data)) {}

  /// \throws InvalidArgument when one event grows beyond 16 MiB
  void feed(std::string_view piece);
  /// Call at the end of the body: handles the last event if no empty line followed it.
  void finish();

  [[nodiscard]] bool is_done() const noexcept { return is_done_; }

 private:
  void take(std::string_view event);

  std::function<void(std::string_view)> on_data_;
  std::string buffer_;
  bool is_done_ = false;  // "[DONE]" was received
};

}  // namespace reprise::bench
