#include "reprise/base/json.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json_budget.h"

namespace reprise {
namespace {

// An error message quotes at most this many bytes of the document.
constexpr size_t kMaxQuotedBytes = 100;

/// nlohmann quotes all of the token that it could not read: "...; last read: '"aaaa'". Only the end
/// of the token matters.
std::string with_short_quote(std::string_view message) {
  constexpr std::string_view kQuote = "last read: '";
  const size_t at = message.find(kQuote);
  if (at == std::string_view::npos) return std::string(message.substr(0, 2 * kMaxQuotedBytes));
  const size_t begin = at + kQuote.size();
  if (message.size() - begin <= kMaxQuotedBytes) return std::string(message);
  return fmt::format(
      "{}...{}", message.substr(0, begin), message.substr(message.size() - kMaxQuotedBytes));
}

// Builds the document while parsing. A document that is too deep or repeats a name is then refused
// before memory is spent on its deeper values.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  /// `budget` may be null: there is none.
  StrictBuilder(std::string_view where, const JsonLimits& limits, JsonBudget* budget)
      : where_(where), limits_(limits), budget_(budget) {}

  bool null() override { return add_number(nullptr); }
  bool boolean(bool value) override { return add_number(value); }
  bool number_integer(number_integer_t value) override { return add_number(value); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(value); }
  bool number_float(number_float_t value, const string_t&) override { return add_number(value); }
  bool string(string_t& value) override {
    take_part();
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return fail("binary value"); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    count_part();
    Frame& frame = frames_.back();
    if (!frame.names.insert(name).second) {
      return fail(fmt::format("repeated member '{}'", name.substr(0, kMaxQuotedBytes)));
    }
    frame.pending_key = std::move(name);
    return true;
  }

  bool parse_error(size_t position,
                   const std::string&,
                   const nlohmann::detail::exception& error) override {
    // nlohmann puts an error id in brackets in front, which means nothing to users.
    std::string_view text = error.what();
    if (const size_t end = text.find("] "); end != std::string_view::npos)
      text.remove_prefix(end + 2);
    throw InvalidArgument(
        fmt::format("{}: not valid JSON at byte {}: {}", where_, position, with_short_quote(text)));
  }

  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json value;
    std::string pending_key;
    std::unordered_set<std::string> names;
  };

  [[noreturn]] bool fail(std::string_view reason) const {
    throw InvalidArgument(fmt::format("{}: not valid JSON: {}", where_, reason));
  }

  void count_part() {
    if (++num_parts_ > limits_.max_parts) {
      fail(fmt::format("more than {} members, arrays and objects", limits_.max_parts));
    }
    take_part();
  }

  void take_part() {
    if (budget_ != nullptr && ++budget_->num_parts > budget_->max_parts) {
      fail(fmt::format("more than {} members, arrays, objects and texts", budget_->max_parts));
    }
  }

  template <typename Value>
  bool add_number(Value value) {
    if (budget_ != nullptr && ++budget_->num_numbers > budget_->max_numbers) {
      fail(fmt::format("more than {} numbers", budget_->max_numbers));
    }
    return add(value);
  }

  bool open(Json container) {
    count_part();
    if (std::cmp_greater_equal(frames_.size(), limits_.max_depth)) {
      fail(fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    frames_.push_back(Frame{std::move(container), {}, {}});
    return true;
  }

  bool close() {
    Json value = std::move(frames_.back().value);
    frames_.pop_back();
    return add(std::move(value));
  }

  template <typename Value>
  bool add(Value&& value) {
    if (frames_.empty()) {
      root_ = Json(std::forward<Value>(value));
      return true;
    }
    Frame& frame = frames_.back();
    if (frame.value.is_object()) {
      // The names are known to be distinct, so a plain append replaces ordered_json's linear
      // search.
      auto& members = frame.value.get_ref<Json::object_t&>();
      members.Json::object_t::Container::emplace_back(std::move(frame.pending_key),
                                                      Json(std::forward<Value>(value)));
    } else {
      frame.value.push_back(Json(std::forward<Value>(value)));
    }
    return true;
  }

  std::string_view where_;
  JsonLimits limits_;
  JsonBudget* budget_;  // the caller's
  size_t num_parts_ = 0;
  std::vector<Frame> frames_;
  Json root_;
};

Json parse(std::string_view text,
           std::string_view where,
           const JsonLimits& limits,
           JsonBudget* budget) {
  if (text.size() > limits.max_bytes) {
    throw InvalidArgument(fmt::format(
        "{}: {} bytes of JSON, at most {} are accepted", where, text.size(), limits.max_bytes));
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    throw InvalidArgument(
        fmt::format("{}: starts with a byte-order mark; save it as plain UTF-8", where));
  }
  // The lexer below takes a NUL byte for the end of the text and would ignore the bytes after it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw InvalidArgument(fmt::format("{}: not valid JSON at byte {}: a NUL byte", where, nul));
  }
  StrictBuilder builder(where, limits, budget);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  return parse(text, where, limits, nullptr);
}

Json parse_json(std::string_view text,
                std::string_view where,
                const JsonLimits& limits,
                JsonBudget& budget) {
  return parse(text, where, limits, &budget);
}

}  // namespace reprise
