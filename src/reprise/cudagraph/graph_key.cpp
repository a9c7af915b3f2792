#include "reprise/cudagraph/graph_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::cudagraph {
namespace {

/// A key as a user wrote it. Members that were left out match every key.
struct KeyPattern {
  std::string mode;
  std::optional<int32_t> num_tokens;
  std::optional<int32_t> num_reqs;
  bool any_reqs = false;  // "reqs=*": the key leaves the number of requests open
  bool uniform = false;
  std::optional<int32_t> num_loras;

  [[nodiscard]] bool fits(const PlannedKey& key) const {
    const BatchDescriptor& descriptor = key.descriptor;
    return mode == to_string(key.mode) && (!num_tokens || *num_tokens == descriptor.num_tokens) &&
           (!num_reqs || num_reqs == descriptor.num_reqs) && (!any_reqs || !descriptor.num_reqs) &&
           (!uniform || descriptor.uniform) &&
           (!num_loras || *num_loras == descriptor.num_active_loras);
  }
};

// The width of a list of keys, on a terminal and in a log.
constexpr size_t kColumns = 78;
constexpr size_t kIndent = 2;

constexpr std::string_view kSyntax =
    "a key is MODE:TOKENS or MODE:tokens=N,reqs=N,uniform,lora=N, such as FULL:8";

int32_t number_of(std::string_view word, std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) {
    throw InvalidArgument(fmt::format("key '{}': '{}' is no number; {}", text, word, kSyntax));
  }
  return number;
}

void apply_word(KeyPattern& pattern, std::string_view word, std::string_view text) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (word == "uniform") {
    pattern.uniform = true;
  } else if (equals == std::string_view::npos) {
    pattern.num_tokens = number_of(word, text);
  } else if (name == "tokens") {
    pattern.num_tokens = number_of(value, text);
  } else if (name == "reqs" && value == "*") {
    pattern.any_reqs = true;
  } else if (name == "reqs") {
    pattern.num_reqs = number_of(value, text);
  } else if (name == "lora") {
    pattern.num_loras = number_of(value, text);
  } else {
    throw InvalidArgument(fmt::format("key '{}': '{}' is not known; {}", text, word, kSyntax));
  }
}

KeyPattern parse_pattern(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ':' || c == ',' || c == '[' || c == ']' || c == ' ') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.back().empty()) words.pop_back();
  if (words.empty()) throw InvalidArgument(fmt::format("key '{}' is empty; {}", text, kSyntax));
  KeyPattern pattern;
  for (const char c : words[0]) {
    pattern.mode += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  for (size_t i = 1; i < words.size(); ++i) apply_word(pattern, words[i], text);
  return pattern;
}

std::string list_of(std::span<const PlannedKey> keys) {
  std::string list;
  size_t column = kIndent;
  for (const PlannedKey& key : keys) {
    const std::string text = graph_key_text(key.mode, key.descriptor);
    const bool is_full = column + 1 + text.size() > kColumns;
    if (!list.empty()) list += is_full ? "\n  " : " ";
    column = (list.empty() || is_full ? kIndent : column + 1) + text.size();
    list += text;
  }
  return list;
}

}  // namespace

std::string graph_key_text(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor) {
  std::string text = fmt::format("{}:tokens={}", to_string(mode), descriptor.num_tokens);
  if (descriptor.num_reqs) text += fmt::format(",reqs={}", *descriptor.num_reqs);
  if (descriptor.uniform) text += ",uniform";
  if (descriptor.has_lora) text += fmt::format(",lora={}", descriptor.num_active_loras);
  return text;
}

PlannedKey find_graph_key(std::string_view text, std::span<const PlannedKey> keys) {
  const KeyPattern pattern = parse_pattern(text);
  std::vector<PlannedKey> found;
  for (const PlannedKey& key : keys) {
    if (pattern.fits(key)) found.push_back(key);
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    throw InvalidArgument(
        fmt::format("this engine has no graph '{}'; it has\n  {}", text, list_of(keys)));
  }
  throw InvalidArgument(
      fmt::format("'{}' fits {} graphs; say which\n  {}", text, found.size(), list_of(found)));
}

}  // namespace reprise::cudagraph
