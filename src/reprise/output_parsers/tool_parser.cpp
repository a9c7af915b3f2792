#include "reprise/output_parsers/tool_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/nearest_name.h"
#include "reprise/output_parsers/marker_scanner.h"

namespace reprise::output_parsers {
namespace {

constexpr std::array<std::string_view, 5> kToolParsers = {
    "hermes", "llama3_json", "mistral", "deepseek_v3", "deepseek_v31"};
constexpr std::string_view kBlanks = " \t\r\n";
// A call longer than this is taken for text that lacks the end marker.
constexpr size_t kMaxCallBytes = size_t{1} << 20;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<Json> parse(std::string_view text) {
  try {
    return parse_json(text, "tool call", {.max_bytes = kMaxCallBytes});
  } catch (const InvalidArgument&) {
    return {};
  }
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct Call {
  std::string name;
  std::string arguments;
};

/// Reads a call of the form {"name": ..., "arguments" or "parameters": ...}.
std::optional<Call> call_of(const Json& json) {
  if (!json.is_object()) return {};
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string() || name->get_ref<const std::string&>().empty())
    return {};
  auto arguments = json.find("arguments");
  if (arguments == json.end()) arguments = json.find("parameters");
  if (arguments == json.end()) return {};
  if (arguments->is_string()) return Call{*name, arguments->get<std::string>()};
  if (!arguments->is_object() && !arguments->is_null()) return {};
  return Call{*name, arguments->is_null() ? "{}" : dump(*arguments)};
}

std::optional<Call> call_of(std::string_view text) {
  const std::optional<Json> json = parse(trimmed(text));
  return json ? call_of(*json) : std::nullopt;
}

/// Counts calls, and removes blanks between calls from the content.
class CallWriter {
 public:
  void add(Call call, MessageDelta& out) {
    held_blanks_.clear();
    out.tool_calls.push_back({num_calls_++, std::move(call.name), std::move(call.arguments)});
  }
  void add_content(std::string_view text, MessageDelta& out) {
    if (text.empty()) return;
    if (num_calls_ == 0) {
      out.content += text;
      return;
    }
    held_blanks_ += text;
    const size_t last = held_blanks_.find_last_not_of(kBlanks);
    if (last == std::string::npos) return;
    out.content.append(held_blanks_, 0, last + 1);
    held_blanks_.erase(0, last + 1);
  }

 private:
  int num_calls_ = 0;
  std::string held_blanks_;  // blanks after a call: content only if text follows
};

/// Parses calls that stand between a start and an end marker: hermes, DeepSeek.
class MarkedCallParser : public OutputParser {
 public:
  MarkedCallParser(std::string_view begin, std::string_view end) : begin_(begin), end_(end) {}

  void push(std::string_view text, MessageDelta& out) final {
    scanner_.push(text);
    for (;;) {
      if (!in_call_) {
        std::string before;
        in_call_ = scanner_.take_until(begin_, before);
        add_content(before, out);
        if (!in_call_) return;
        call_.clear();
      }
      if (!scanner_.take_until(end_, call_)) {
        if (call_.size() > kMaxCallBytes) give_up(out);
        return;
      }
      in_call_ = false;
      std::optional<Call> call = read(call_);
      if (call) {
        writer_.add(std::move(*call), out);
      } else {
        add_content(begin_ + call_ + end_, out);
      }
    }
  }

  void finish(MessageDelta& out) override {
    if (!in_call_) return add_content(scanner_.take_all(), out);
    call_ += scanner_.take_all();
    // The end marker may be missing: models stop after the JSON, and the marker may be their stop
    // token.
    if (std::optional<Call> call = read(call_)) {
      writer_.add(std::move(*call), out);
    } else {
      give_up(out);
    }
  }

 protected:
  [[nodiscard]] virtual std::optional<Call> read(std::string_view text) const {
    return call_of(text);
  }
  virtual void add_content(std::string_view text, MessageDelta& out) {
    writer_.add_content(text, out);
  }

  CallWriter writer_;

 private:
  void give_up(MessageDelta& out) {
    in_call_ = false;
    add_content(begin_ + call_, out);
  }

  std::string begin_;
  std::string end_;
  MarkerScanner scanner_;
  std::string call_;
  bool in_call_ = false;
};

/// <｜tool▁calls▁begin｜> around calls. A call is `type<｜tool▁sep｜>name`, a line end and the
/// arguments in a fenced block; in newer models it is `name<｜tool▁sep｜>` and the arguments.
class DeepseekParser final : public MarkedCallParser {
 public:
  explicit DeepseekParser(bool has_type)
      : MarkedCallParser("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"), has_type_(has_type) {}

 protected:
  std::optional<Call> read(std::string_view text) const override {
    constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
    const size_t at = text.find(kSeparator);
    if (at == std::string_view::npos) return {};
    std::string_view name = text.substr(0, at);
    std::string_view arguments = text.substr(at + kSeparator.size());
    if (has_type_) {
      const size_t line_end = arguments.find('\n');
      if (line_end == std::string_view::npos) return {};
      name = arguments.substr(0, line_end);
      arguments = arguments.substr(line_end + 1);
    }
    arguments = trimmed(arguments);
    if (arguments.starts_with("```json")) arguments.remove_prefix(7);
    if (arguments.ends_with("```")) arguments.remove_suffix(3);
    name = trimmed(name);
    const std::optional<Json> json = parse(trimmed(arguments));
    if (name.empty() || !json || !json->is_object()) return {};
    return Call{std::string(name), dump(*json)};
  }

  /// The markers around all calls are not content.
  void add_content(std::string_view text, MessageDelta& out) override {
    constexpr std::string_view kBegin = "<｜tool▁calls▁begin｜>";
    constexpr std::string_view kEnd = "<｜tool▁calls▁end｜>";
    around_ += text;
    for (const std::string_view marker : {kBegin, kEnd}) {
      for (size_t at = 0; (at = around_.find(marker, at)) != std::string::npos;)
        around_.erase(at, marker.size());
    }
    const size_t num_held =
        std::max(partial_marker(around_, kBegin), partial_marker(around_, kEnd));
    writer_.add_content(std::string_view(around_).substr(0, around_.size() - num_held), out);
    around_.erase(0, around_.size() - num_held);
  }

 public:
  void finish(MessageDelta& out) override {
    MarkedCallParser::finish(out);
    writer_.add_content(std::exchange(around_, {}), out);
  }

 private:
  std::string around_;  // may be the beginning of a marker
  bool has_type_;
};

/// Parses a series of objects, each of which is a call: the whole answer, or the text after a
/// marker.
class ObjectListParser final : public OutputParser {
 public:
  struct Style {
    std::string_view marker;         // calls follow it
    bool may_lack_marker = false;    // an answer that begins with '{' also consists of calls
    bool has_names_outside = false;  // name{...} or name[ARGS]{...}, besides an array of objects
    bool is_array = false;           // the answer is an array and nothing else
  };
  explicit ObjectListParser(Style style) : style_(style) {}

  void push(std::string_view text, MessageDelta& out) override {
    scanner_.push(text);
    read(false, out);
  }
  void finish(MessageDelta& out) override {
    read(true, out);
    writer_.add_content(scanner_.take_all(), out);
  }

 private:
  enum class State { start, text, calls, broken };

  void read(bool is_end, MessageDelta& out) {
    if (state_ == State::start) decide(is_end);
    if (state_ == State::text) {
      std::string before;
      if (scanner_.take_until(style_.marker, before)) state_ = State::calls;
      writer_.add_content(before, out);
    }
    while (state_ == State::calls && read_call(is_end, out)) {
    }
    if (state_ == State::broken) writer_.add_content(scanner_.take_all(), out);
  }

  void decide(bool is_end) {
    const std::string_view text = scanner_.held();
    const size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos && !is_end) return;
    const bool is_calls =
        style_.is_array ||
        (style_.may_lack_marker && first != std::string_view::npos && text[first] == '{');
    state_ = is_calls ? State::calls : style_.marker.empty() ? State::broken : State::text;
  }

  /// Returns false when it needs more text.
  bool read_call(bool is_end, MessageDelta& out) {
    const std::string& held = scanner_.held();
    const size_t first = held.find_first_not_of(kBlanks);
    if (first == std::string::npos) return false;
    const char c = held[first];
    if (!style_.marker.empty() && std::string_view(held).substr(first).starts_with(style_.marker)) {
      scanner_.drop(first + style_.marker.size());
      return true;
    }
    if (!style_.marker.empty() && !is_end &&
        style_.marker.starts_with(std::string_view(held).substr(first))) {
      return false;
    }
    if (c == ';' || c == ',' || (c == '[' && !in_list_) || (c == ']' && in_list_)) {
      if (c == '[') in_list_ = true;
      if (c == ']') in_list_ = false;
      scanner_.drop(first + 1);
      return true;
    }
    size_t begin = first;
    if (c != '{') {
      begin = style_.has_names_outside ? held.find('{', first) : std::string::npos;
      if (begin == std::string::npos && style_.has_names_outside &&
          may_be_name(std::string_view(held).substr(first))) {
        return false;
      }
      if (begin == std::string::npos) return fail();
    }
    const std::string_view name = std::string_view(held).substr(first, begin - first);
    if (!may_be_name(name)) return fail();
    const size_t size = end_of_json(std::string_view(held).substr(begin));
    if (size == std::string::npos) {
      if (held.size() > kMaxCallBytes) return fail();
      return false;
    }
    std::optional<Call> call = call_in(name, std::string_view(held).substr(begin, size));
    if (!call) return fail();
    scanner_.drop(begin + size);
    writer_.add(std::move(*call), out);
    return true;
  }

  static bool may_be_name(std::string_view text) {
    return text.size() < 256 && text.find_first_of("\n\"{}") == std::string_view::npos;
  }

  static std::optional<Call> call_in(std::string_view name, std::string_view object) {
    if (name.empty()) return call_of(object);
    if (const size_t at = name.find("[ARGS]"); at != std::string_view::npos)
      name = name.substr(0, at);
    if (const size_t at = name.find("[CALL_ID]"); at != std::string_view::npos)
      name = name.substr(0, at);
    const std::optional<Json> json = parse(object);
    if (!json || trimmed(name).empty()) return {};
    return Call{std::string(trimmed(name)), dump(*json)};
  }

  bool fail() {
    state_ = State::broken;
    return false;
  }

  Style style_;
  MarkerScanner scanner_;
  CallWriter writer_;
  State state_ = State::start;
  bool in_list_ = false;
};

class NamedCallParser final : public OutputParser {
 public:
  explicit NamedCallParser(std::string name) : name_(std::move(name)) {}

  void push(std::string_view text, MessageDelta& out) override {
    if (text.empty()) return;
    out.tool_calls.push_back({0, std::exchange(name_, {}), std::string(text)});
  }
  void finish(MessageDelta& out) override {
    if (!name_.empty()) out.tool_calls.push_back({0, std::exchange(name_, {}), {}});
  }

 private:
  std::string name_;  // empty after it was reported
};

}  // namespace

std::vector<std::string_view> tool_parser_names() {
  return {kToolParsers.begin(), kToolParsers.end()};
}

std::unique_ptr<OutputParser> create_tool_parser(std::string_view name) {
  if (name == "hermes") return std::make_unique<MarkedCallParser>("<tool_call>", "</tool_call>");
  if (name == "llama3_json") {
    return std::make_unique<ObjectListParser>(
        ObjectListParser::Style{.marker = "<|python_tag|>", .may_lack_marker = true});
  }
  if (name == "mistral") {
    return std::make_unique<ObjectListParser>(
        ObjectListParser::Style{.marker = "[TOOL_CALLS]", .has_names_outside = true});
  }
  if (name == "deepseek_v3") return std::make_unique<DeepseekParser>(true);
  if (name == "deepseek_v31") return std::make_unique<DeepseekParser>(false);
  throw InvalidArgument(fmt::format("there is no tool-call parser '{}'{}; there are {}",
                                    name,
                                    did_you_mean(name, kToolParsers),
                                    fmt::join(kToolParsers, ", ")));
}

std::unique_ptr<OutputParser> create_named_call_parser(std::string name) {
  return std::make_unique<NamedCallParser>(std::move(name));
}

std::unique_ptr<OutputParser> create_required_calls_parser() {
  return std::make_unique<ObjectListParser>(ObjectListParser::Style{.is_array = true});
}

}  // namespace reprise::output_parsers
