#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "reprise/chat_template/builtins.h"
#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/percent_format.h"
#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/sequence_filters.h"
#include "reprise/chat_template/text_operations.h"
#include "reprise/chat_template/unicode.h"

/// Filters of one value: text, numbers, JSON. The filters of sequences are in sequence_filters.cpp.
namespace reprise::chat_template {
namespace {

const std::string& bytes_of(const Value& value) { return value.text()->bytes; }

// ---- text ----

// A word starts after white space or one of ( { [ < -. str.title() has another rule.
std::string title_words(std::string_view text) {
  std::string result;
  bool starts_word = true;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = next_code_point(text, offset);
    const bool separates =
        unicode::is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    starts_word ? unicode::append_upper(result, c) : unicode::append_lower(result, c);
    starts_word = separates;
  }
  return result;
}

Value trim(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Value text = to_text(sandbox, subject);
  sandbox.charge_decode(bytes_of(text).size());
  const std::string_view stripped =
      args.is_given(0) ? unicode::strip(bytes_of(text),
                                        require_text(sandbox, args[0], "strip arg").bytes,
                                        unicode::Side::both)
                       : unicode::strip(bytes_of(text));
  return sandbox.text(std::string(stripped), text.text()->is_markup);
}

Value string(Sandbox& sandbox, const Value& subject, const Bound&) {
  return to_text(sandbox, subject);
}

Value safe(Sandbox& sandbox, const Value& subject, const Bound&) {
  return sandbox.text(to_str(sandbox, subject), /*is_markup=*/true);
}

Value force_escape(Sandbox& sandbox, const Value& subject, const Bound&) {
  return sandbox.text(escape_html(to_str(sandbox, subject)), /*is_markup=*/true);
}

Value escape(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const bool is_markup = subject.is_text() && subject.text()->is_markup;
  return is_markup ? subject : force_escape(sandbox, subject, args);
}

Value replace(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const int64_t count = args.is_given(2) ? require_integer(sandbox, args[2], "count") : -1;
  return sandbox.text(replace_text(sandbox,
                                   to_str(sandbox, subject),
                                   to_str(sandbox, args[0]),
                                   to_str(sandbox, args[1]),
                                   count));
}

// The indentation is a text, or a number of blanks.
std::string indent_text(Sandbox& sandbox, const Value& given, std::string_view what) {
  if (given.is_text()) return bytes_of(given);
  const int64_t width = std::max<int64_t>(0, require_integer(sandbox, given, what));
  sandbox.check_text_size(static_cast<uint64_t>(width));
  return std::string(static_cast<size_t>(width), ' ');
}

Value indent(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Text& text = require_text(sandbox, subject, "the value of indent");
  const std::string indention = args.has(0) ? indent_text(sandbox, args[0], "width") : "    ";
  const std::string with_end = text.bytes + "\n";
  sandbox.charge_scan(with_end.size());
  std::string result;
  bool is_first = true;
  for (const std::string_view line : split_lines(with_end, /*keep_ends=*/false)) {
    if (!is_first) result += '\n';
    const bool is_indented = is_first ? args.truthy(1) : (args.truthy(2) || !line.empty());
    if (is_indented) result += indention;
    result += line;
    sandbox.check_text_size(result.size());
    is_first = false;
  }
  return sandbox.text(std::move(result), text.is_markup);
}

Value center(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const int64_t width = args.has(0) ? require_integer(sandbox, args[0], "width") : 80;
  const Value text = to_text(sandbox, subject);
  return sandbox.text(pad_text(sandbox, bytes_of(text), width, " ", Justify::center),
                      text.text()->is_markup);
}

Value truncate(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Text& text = require_text(sandbox, subject, "the value of truncate");
  const int64_t length = args.has(0) ? require_integer(sandbox, args[0], "length") : 255;
  const std::string end = args.has(2) ? require_text(sandbox, args[2], "end").bytes : "...";
  const int64_t leeway = args.is_given(3) ? require_integer(sandbox, args[3], "leeway") : 5;
  const auto end_length = static_cast<int64_t>(count_code_points(end));
  if (length < end_length) sandbox.fail("truncate: the length is shorter than the end");
  if (leeway < 0) sandbox.fail("truncate: the leeway is negative");
  if (static_cast<int64_t>(text.length) - leeway <= length) return subject;
  sandbox.charge_scan(text.bytes.size());
  std::string_view kept =
      std::string_view(text.bytes)
          .substr(0, offset_of_code_point(text.bytes, static_cast<size_t>(length - end_length)));
  if (!args.truthy(1)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return sandbox.text(std::string(kept) + end, text.is_markup);
}

Value wordcount(Sandbox& sandbox, const Value& subject, const Bound&) {
  const std::string text = to_str(sandbox, subject);
  sandbox.charge_decode(text.size());
  int64_t words = 0;
  bool is_inside_word = false;
  for (size_t offset = 0; offset < text.size();) {
    const bool is_word = unicode::is_word(next_code_point(text, offset));
    if (is_word && !is_inside_word) ++words;
    is_inside_word = is_word;
  }
  return Value(words);
}

Value format(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const Args& given = args.raw();
  if (!given.positional.empty() && !given.named.empty()) {
    sandbox.fail("can't handle positional and keyword arguments at the same time");
  }
  if (given.named.empty()) {
    return format_percent(sandbox, to_text(sandbox, subject), sandbox.tuple(given.positional));
  }
  Dict values;
  for (const auto& [name, value] : given.named) values.set(sandbox.text(name), value);
  return format_percent(sandbox, to_text(sandbox, subject), sandbox.dict(std::move(values)));
}

// ---- numbers ----

// Removes white space and underscores like Python's int() and float(). Returns nullopt when the
// text is not a number.
std::optional<std::string> clean_number(std::string_view text) {
  const std::string_view stripped = unicode::strip(text);
  std::string digits;
  for (size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] != '_') {
      digits += stripped[i];
      continue;
    }
    const auto is_alnum = [&](size_t at) {
      return at < stripped.size() && std::isalnum(static_cast<unsigned char>(stripped[at])) != 0;
    };
    if (i == 0 || !is_alnum(i - 1) || !is_alnum(i + 1)) return std::nullopt;
  }
  return digits.empty() ? std::nullopt : std::optional(digits);
}

std::optional<double> parse_float(std::string_view text) {
  const auto digits = clean_number(text);
  if (!digits) return std::nullopt;
  std::string_view number = *digits;
  const bool is_negative = number.front() == '-';
  if (number.front() == '+' || number.front() == '-') number.remove_prefix(1);
  if (number.empty() || number.front() == '+' || number.front() == '-') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {  // too large gives inf, too small gives 0
    value = std::strtod(std::string(number).c_str(), nullptr);
  } else if (error != std::errc{}) {
    return std::nullopt;
  }
  if (end != number.data() + number.size() || number.back() == ')') return std::nullopt;
  return is_negative ? -value : value;
}

std::optional<int64_t> parse_int(Sandbox& sandbox, std::string_view text, int64_t base) {
  const auto digits = clean_number(text);
  if (!digits) return std::nullopt;
  std::string_view number = *digits;
  const bool is_negative = number.front() == '-';
  if (number.front() == '+' || number.front() == '-') number.remove_prefix(1);
  const auto has_prefix = [&](char letter) {
    return number.size() > 2 && number[0] == '0' && (number[1] | 0x20) == letter;
  };
  for (const auto& [letter, radix] : {std::pair('x', 16), std::pair('o', 8), std::pair('b', 2)}) {
    if ((base == radix || base == 0) && has_prefix(letter)) {
      number.remove_prefix(2);
      base = radix;
    }
  }
  if (base == 0) {
    if (number.size() > 1 && number.front() == '0' &&
        number.find_first_not_of('0') != std::string_view::npos) {
      return std::nullopt;
    }
    base = 10;
  }
  uint64_t magnitude = 0;
  const char* last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, magnitude, static_cast<int>(base));
  if (error == std::errc::invalid_argument || end != last) return std::nullopt;
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) + (is_negative ? 1 : 0);
  if (error != std::errc{} || magnitude > most) {
    sandbox.fail("integer does not fit into 64 bits");
  }
  return static_cast<int64_t>(is_negative ? uint64_t{0} - magnitude : magnitude);
}

int64_t truncate_float(Sandbox& sandbox, double value) {
  if (std::isinf(value)) sandbox.fail("cannot convert float infinity to integer");
  if (!(std::abs(value) < 9223372036854775808.0)) {
    sandbox.fail("integer does not fit into 64 bits");
  }
  return static_cast<int64_t>(value);
}

Value to_int(Sandbox& sandbox, const Value& subject, const Bound& args) {
  require_defined(sandbox, subject);
  const Value fallback = args.value_or(0, Value(int64_t{0}));
  if (const auto integer = subject.as_integer()) return Value(*integer);
  std::optional<double> number;
  if (subject.is_float()) {
    number = subject.as_float();
  } else if (subject.is_text()) {
    const int64_t base = args.has(1) ? require_integer(sandbox, args[1], "base") : 10;
    const bool is_base = base == 0 || (base >= 2 && base <= 36);
    if (is_base) {
      if (const auto integer = parse_int(sandbox, bytes_of(subject), base)) return Value(*integer);
    }
    number = parse_float(bytes_of(subject));
    // For a text, jinja2 catches the error of int(float("inf")); for a number it does not.
    if (number && std::isinf(*number)) return fallback;
  }
  if (!number || std::isnan(*number)) return fallback;
  return Value(truncate_float(sandbox, *number));
}

Value to_float(Sandbox& sandbox, const Value& subject, const Bound& args) {
  require_defined(sandbox, subject);
  if (subject.is_float()) return subject;
  if (const auto integer = subject.as_integer()) return Value(static_cast<double>(*integer));
  if (subject.is_text()) {
    if (const auto number = parse_float(bytes_of(subject))) return Value(*number);
  }
  return args.value_or(0, Value(0.0));
}

Value absolute(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (subject.is_float()) return Value(std::abs(subject.as_float()));
  const int64_t value = require_integer(sandbox, subject, "abs() argument");
  return value < 0 ? negate(sandbox, Value(value)) : Value(value);
}

// Python's round() gives the decimal nearest to the exact binary value, ties to even.
double round_float(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < -330) return std::copysign(0.0, value);
  if (digits < 0) {
    const double power = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / power) * power;
  }
  return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
}

Value round_integer(Sandbox& sandbox, int64_t value, int64_t digits) {
  if (digits >= 0) return Value(value);
  if (digits < -18) return Value(int64_t{0});
  int64_t power = 1;
  for (; digits < 0; ++digits) power *= 10;
  const int64_t down =
      binary(sandbox, BinaryOp::floor_divide, Value(value), Value(power)).as_integer().value();
  const int64_t rest = value - down * power;
  const bool goes_up = rest > power / 2 || (rest == power / 2 && (down & 1) != 0);
  return binary(sandbox, BinaryOp::multiply, Value(down + (goes_up ? 1 : 0)), Value(power));
}

Value round(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const int64_t digits = args.has(0) ? require_integer(sandbox, args[0], "precision") : 0;
  const std::string method = args.has(1) ? to_str(sandbox, args[1]) : "common";
  require_defined(sandbox, subject);
  if (!subject.is_number()) {
    sandbox.fail(fmt::format("type {} doesn't define __round__ method", type_name(subject)));
  }
  if (method == "common") {
    if (const auto integer = subject.as_integer()) return round_integer(sandbox, *integer, digits);
    return Value(round_float(subject.as_float(), digits));
  }
  if (method != "ceil" && method != "floor") sandbox.fail("method must be common, ceil or floor");
  const Value power = binary(sandbox, BinaryOp::power, Value(int64_t{10}), Value(digits));
  const Value scaled = binary(sandbox, BinaryOp::multiply, subject, power);
  if (scaled.is_float()) {
    const double number = scaled.as_float();
    const Value whole(
        truncate_float(sandbox, method == "ceil" ? std::ceil(number) : std::floor(number)));
    return binary(sandbox, BinaryOp::divide, whole, power);
  }
  return binary(sandbox, BinaryOp::divide, scaled, power);
}

// ---- values ----

Value default_value(Sandbox& sandbox, const Value& subject, const Bound& args) {
  if (!subject.is_undefined() && !(args.truthy(1) && !is_truthy(subject))) return subject;
  return args.has(0) ? args[0] : sandbox.text("");
}

Value length(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (const auto length = length_of(subject)) return Value(*length);
  sandbox.fail(fmt::format("object of type '{}' has no len()", type_name(subject)));
}

Value attr(Sandbox& sandbox, const Value& subject, const Bound& args) {
  const std::string& name = require_text(sandbox, args[0], "attribute name").bytes;
  // Looks for the attribute only. `subject.name` would also look for an element.
  if (subject.dict() != nullptr && subject.dict()->find(name) != nullptr) {
    Value found = attribute(sandbox, subject, name);
    if (found.callable() == nullptr) {
      return Sandbox::undefined(fmt::format("'dict object' has no attribute '{}'", name));
    }
    return found;
  }
  return attribute(sandbox, subject, name);
}

Value tojson(Sandbox& sandbox, const Value& subject, const Bound& args) {
  JsonStyle style;
  style.ensure_ascii = args.truthy(0);
  if (args.is_given(1)) {
    style.indent = indent_text(sandbox, args[1], "indent");
    style.item_separator = ",";
  }
  if (args.is_given(2)) {
    const auto separators = iterate(sandbox, args[2]);
    if (separators.size() != 2) sandbox.fail("separators must be a pair");
    style.item_separator = require_text(sandbox, separators[0], "separator").bytes;
    style.key_separator = require_text(sandbox, separators[1], "separator").bytes;
  }
  style.sort_keys = args.truthy(3);
  return sandbox.text(to_json(sandbox, subject, style));
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"abs", "", 0, absolute},
    {"attr", "name", 1, attr},
    {"capitalize", "", 0, change_text<capitalize_text>},
    {"center", "width", 0, center},
    {"count", "", 0, length},
    {"d", "default_value boolean", 0, default_value},
    {"default", "default_value boolean", 0, default_value},
    {"e", "", 0, escape},
    {"escape", "", 0, escape},
    {"float", "default", 0, to_float},
    {"forceescape", "", 0, force_escape},
    {"format", "*", 0, format},
    {"indent", "width first blank", 0, indent},
    {"int", "default base", 0, to_int},
    {"length", "", 0, length},
    {"lower", "", 0, change_text<unicode::lower>},
    {"replace", "old new count", 2, replace},
    {"round", "precision method", 0, round},
    {"safe", "", 0, safe},
    {"string", "", 0, string},
    {"title", "", 0, change_text<title_words>},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, tojson},
    {"trim", "chars", 0, trim},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"upper", "", 0, change_text<unicode::upper>},
    {"wordcount", "", 0, wordcount},
});

}  // namespace

const Builtin* find_filter(std::string_view name) {
  if (const Builtin* filter = find_in(kFilters, name)) return filter;
  return find_in(sequence_filters(), name);
}

}  // namespace reprise::chat_template
