#include "reprise/bench/stream_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::bench {
namespace {

constexpr size_t kMaxEventBytes = size_t{16} << 20;
constexpr size_t kMaxDepth = 64;

/// Reads the few needed members of a chunk without building a JSON tree. The client often runs on
/// the server's machine, and reading chunks is most of the client's work.
class MessageSax : public nlohmann::json_sax<Json> {
 public:
  explicit MessageSax(StreamMessage& message) : message_(&message) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& value) override {
    if (is_at({"choices", "text"}) || is_at({"choices", "delta", "content"})) {
      if (num_choices_ == 1) message_->text += value;
    } else if (is_at({"error", "message"}) || is_at({"error"})) {
      message_->error = std::move(value);
    }
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ == 2 && is_at({"choices"})) {
      message_->has_choice = true;
      ++num_choices_;
    }
    if (is_at({"error"}) && depth_ == 1) message_->error = "the server reported an error";
    return open();
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    // A key overwrites the previous key of the same object, so `keys_` always holds the path to the
    // current value.
    keys_.resize(frames_.back() + 1);
    keys_.back() = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool integer(int64_t value) {
    if (is_at({"usage", "completion_tokens"})) message_->completion_tokens = value;
    return true;
  }
  bool open() {
    if (++depth_ > kMaxDepth) return false;
    frames_.push_back(keys_.size());
    return true;
  }
  bool close() {
    --depth_;
    keys_.resize(frames_.back());
    frames_.pop_back();
    return true;
  }
  [[nodiscard]] bool is_at(std::initializer_list<std::string_view> path) const {
    return std::equal(keys_.begin(), keys_.end(), path.begin(), path.end());
  }

  StreamMessage* message_;
  std::vector<std::string> keys_;  // names on the path to the current value; arrays add none
  std::vector<size_t> frames_;     // per open object or array: the length of its path
  size_t depth_ = 0;
  int num_choices_ = 0;
};

}  // namespace

StreamMessage parse_stream_message(std::string_view json) {
  StreamMessage message;
  MessageSax sax(message);
  if (!Json::sax_parse(json, &sax)) {
    throw InvalidArgument(
        fmt::format("an event of the stream is not JSON: {}", json.substr(0, 200)));
  }
  return message;
}

void StreamReader::feed(std::string_view piece) {
  buffer_ += piece;
  size_t begin = 0;
  for (;;) {
    const size_t unix_end = buffer_.find("\n\n", begin);
    const size_t dos_end = buffer_.find("\r\n\r\n", begin);
    const size_t end = std::min(unix_end, dos_end);
    if (end == std::string::npos) break;
    const size_t next = end + (end == unix_end ? 2 : 4);
    take(std::string_view(buffer_).substr(begin, end - begin));
    begin = next;
  }
  buffer_.erase(0, begin);
  if (buffer_.size() > kMaxEventBytes) {
    throw InvalidArgument("an event of the stream is longer than 16 MiB");
  }
}

void StreamReader::finish() {
  const std::string rest = std::move(buffer_);
  buffer_.clear();
  take(rest);
}

void StreamReader::take(std::string_view event) {
  while (!event.empty()) {
    const size_t end = std::min(event.find('\n'), event.size());
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    while (line.ends_with('\r')) line.remove_suffix(1);
    constexpr std::string_view kData = "data:";
    if (!line.starts_with(kData)) continue;
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (line == "[DONE]") {
      is_done_ = true;
    } else if (!line.empty()) {
      on_data_(line);
    }
  }
}

}  // namespace reprise::bench
