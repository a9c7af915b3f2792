#include "reprise/chat_template/string_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/text_methods.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {
namespace {

// One conversion, of either syntax.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, 0 = by type
  char sign = '-';
  bool is_alternate = false;
  int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  std::optional<int64_t> precision;
  char type = 0;
};

// More digits than a double has are zeros; the cap keeps the buffer small.
constexpr int64_t kMaxPrecision = 1000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Reader {
 public:
  Reader(Sandbox& sandbox, std::string_view text) : sandbox_(sandbox), text_(text) {}

  [[nodiscard]] bool at_end() const { return offset_ >= text_.size(); }
  [[nodiscard]] char peek(size_t ahead = 0) const {
    return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
  }
  char take() {
    if (at_end()) sandbox_.fail("incomplete format");
    return text_[offset_++];
  }
  bool take_if(char c) {
    if (at_end() || peek() != c) return false;
    ++offset_;
    return true;
  }
  /// Up to and without the next of `stops`, or all that is left.
  std::string_view until(std::string_view stops) {
    const size_t end = std::min(text_.find_first_of(stops, offset_), text_.size());
    const auto part = text_.substr(offset_, end - offset_);
    offset_ = end;
    return part;
  }
  std::optional<int64_t> number() {
    int64_t value = 0;
    const char* begin = text_.data() + offset_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) sandbox_.fail("number in format is too large");
    if (error != std::errc{} || value < 0) return std::nullopt;
    offset_ += static_cast<size_t>(end - begin);
    return value;
  }
  [[nodiscard]] std::string_view rest() const { return text_.substr(offset_); }
  void skip(size_t count) { offset_ += count; }

 private:
  Sandbox& sandbox_;
  std::string_view text_;
  size_t offset_ = 0;
};

std::string group_digits(const std::string& digits, char separator) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

// Sign, then zeros or fill, as `align` wants.
std::string place_number(Sandbox& sandbox,
                         const Spec& spec,
                         bool is_negative,
                         std::string prefix,
                         const std::string& digits) {
  std::string sign = is_negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  prefix = sign + prefix;
  const char align = spec.align == 0 ? '>' : spec.align;
  if (align == '=') {
    const int64_t width = spec.width - static_cast<int64_t>(prefix.size());
    return prefix + pad_text(sandbox, digits, width, spec.fill, Justify::right);
  }
  const Justify justify = align == '<'   ? Justify::left
                          : align == '^' ? Justify::format_center
                                         : Justify::right;
  return pad_text(sandbox, prefix + digits, spec.width, spec.fill, justify);
}

std::string format_integer(Sandbox& sandbox, const Spec& spec, int64_t value) {
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits;
  std::string prefix;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      prefix = "0o";
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      prefix = "0b";
      break;
    default:
      digits = std::to_string(magnitude);
  }
  if (spec.precision) digits = pad_text(sandbox, digits, *spec.precision, "0", Justify::right);
  if (spec.grouping != 0) digits = group_digits(digits, spec.grouping);
  if (!spec.is_alternate) prefix.clear();
  return place_number(sandbox, spec, value < 0, prefix, digits);
}

std::string format_floating(Sandbox& sandbox, const Spec& spec, double value) {
  std::string digits;
  const char type = spec.type == 0 ? 'r' : spec.type;
  const double magnitude = std::abs(value);
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (type >= 'E' && type <= 'G') digits = unicode::upper(digits);
  } else if (type == 'r' && !spec.precision) {
    digits = float_repr(magnitude);
  } else {
    const int precision = static_cast<int>(spec.precision.value_or(6));
    const std::string format = std::string("%") + (spec.is_alternate ? "#" : "") + ".*" +
                               (type == '%'   ? 'f'
                                : type == 'r' ? 'g'
                                              : type);
    std::string buffer(static_cast<size_t>(precision) + 400, '\0');
    const double shown = type == '%' ? magnitude * 100 : magnitude;
    const int size = std::snprintf(buffer.data(), buffer.size(), format.c_str(), precision, shown);
    buffer.resize(static_cast<size_t>(size));
    digits = std::move(buffer);
    if (type == '%') digits += '%';
  }
  if (spec.grouping != 0) {
    const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = group_digits(digits.substr(0, end), spec.grouping) + digits.substr(end);
  }
  return place_number(sandbox, spec, std::signbit(value) && !std::isnan(value), "", digits);
}

std::string format_string(Sandbox& sandbox, const Spec& spec, std::string_view text) {
  if (spec.precision) {
    text = text.substr(0, offset_of_code_point(text, static_cast<size_t>(*spec.precision)));
  }
  const Justify justify = spec.align == '>'   ? Justify::right
                          : spec.align == '^' ? Justify::format_center
                                              : Justify::left;
  return pad_text(sandbox, text, spec.width, spec.fill, justify);
}

double to_double(const Value& value) {
  const auto integer = value.as_integer();
  return integer ? static_cast<double>(*integer) : value.as_float();
}

void check_spec(Sandbox& sandbox, const Spec& spec) {
  sandbox.check_text_size(static_cast<uint64_t>(spec.width));
  if (spec.precision.value_or(0) > kMaxPrecision) sandbox.fail_limit("precision is too big");
}

// ---- text % values ----

Spec read_percent_spec(Sandbox& sandbox, Reader& reader, auto next_value) {
  Spec spec;
  for (;; (void)reader.take()) {
    const char flag = reader.peek();
    if (flag == '-') {
      spec.align = '<';
    } else if (flag == '0') {
      if (spec.align != '<') {
        spec.align = '=';
        spec.fill = "0";
      }
    } else if (flag == '+') {
      spec.sign = '+';
    } else if (flag == ' ') {
      if (spec.sign != '+') spec.sign = ' ';
    } else if (flag == '#') {
      spec.is_alternate = true;
    } else {
      break;
    }
  }
  if (spec.align == '<') spec.fill = " ";
  if (reader.take_if('*')) {
    spec.width = require_integer(sandbox, next_value(), "width");
    if (spec.width < 0) {
      sandbox.check_text_size(static_cast<uint64_t>(-(spec.width + 1)));
      spec.align = '<';
      spec.width = -spec.width;
    }
  } else {
    spec.width = reader.number().value_or(0);
  }
  if (reader.take_if('.')) {
    spec.precision = reader.take_if('*') ? require_integer(sandbox, next_value(), "precision")
                                         : reader.number().value_or(0);
    spec.precision = std::max<int64_t>(0, *spec.precision);
  }
  while (reader.peek() == 'h' || reader.peek() == 'l' || reader.peek() == 'L') (void)reader.take();
  spec.type = reader.take();
  check_spec(sandbox, spec);
  return spec;
}

std::string convert_percent(Sandbox& sandbox, Spec spec, const Value& value) {
  const auto need_number = [&] {
    require_defined(sandbox, value);
    if (value.is_number()) return;
    sandbox.fail(
        fmt::format("%{} format: a real number is required, not {}", spec.type, type_name(value)));
  };
  const auto as_string = [&](const std::string& text) {
    spec.fill = " ";
    if (spec.align != '<') spec.align = '>';
    return format_string(sandbox, spec, text);
  };
  switch (spec.type) {
    case 's':
      return as_string(to_str(sandbox, value));
    case 'r':
    case 'a':
      return as_string(to_repr(sandbox, value));
    case 'c':
      if (const auto code = value.as_integer()) {
        if (*code < 0 || *code > 0x10FFFF) sandbox.fail("%c arg not in range(0x110000)");
        std::string text;
        append_utf8(static_cast<char32_t>(*code), text);
        return as_string(text);
      }
      if (!value.is_text() || value.text()->length != 1) {
        sandbox.fail("%c requires int or char");
      }
      return as_string(value.text()->bytes);
    case 'd':
    case 'i':
    case 'u': {
      need_number();
      const auto integer = value.as_integer();
      if (!integer && !(std::abs(value.as_float()) < 9.2e18)) {
        sandbox.fail("%d format: the number is too large");
      }
      return format_integer(
          sandbox, spec, integer ? *integer : static_cast<int64_t>(value.as_float()));
    }
    case 'x':
    case 'X':
    case 'o':
      return format_integer(sandbox, spec, require_integer(sandbox, value, "%x argument"));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      need_number();
      return format_floating(sandbox, spec, to_double(value));
    default:
      sandbox.fail(fmt::format("unsupported format character '{}'", spec.type));
  }
}

}  // namespace

Value format_percent(Sandbox& sandbox, const Value& text, const Value& values) {
  const Sequence* tuple = values.sequence();
  if (tuple != nullptr && tuple->flavor != Sequence::Flavor::tuple) tuple = nullptr;
  size_t used = 0;
  const size_t available = tuple != nullptr ? tuple->items.size() : 1;
  const auto next_value = [&]() -> const Value& {
    if (used >= available) sandbox.fail("not enough arguments for format string");
    ++used;
    return tuple != nullptr ? tuple->items[used - 1] : values;
  };
  const bool is_markup = text.text()->is_markup;
  std::string result;
  bool used_mapping = false;
  Reader reader(sandbox, text.text()->bytes);
  sandbox.charge_scan(text.text()->bytes.size());
  while (!reader.at_end()) {
    result += reader.until("%");
    if (reader.at_end()) break;
    (void)reader.take();
    if (reader.take_if('%')) {
      result += '%';
      continue;
    }
    std::optional<Value> mapped;
    if (reader.take_if('(')) {
      if (values.dict() == nullptr) sandbox.fail("format requires a mapping");
      const std::string key(reader.until(")"));
      (void)reader.take();
      const Value* found = values.dict()->find(key);
      if (found == nullptr) sandbox.fail(fmt::format("key {} is missing", text_repr(key)));
      mapped = *found;
      used_mapping = true;
    }
    const Spec spec = read_percent_spec(sandbox, reader, next_value);
    const std::string part =
        convert_percent(sandbox, spec, mapped.has_value() ? *mapped : next_value());
    sandbox.check_text_size(result.size() + part.size());
    result += is_markup ? escape_html(part) : part;
  }
  const bool is_whole_argument = tuple == nullptr && (values.dict() != nullptr || used_mapping);
  if (used < available && !is_whole_argument &&
      !(tuple == nullptr && values.sequence() != nullptr)) {
    sandbox.fail("not all arguments converted during string formatting");
  }
  return sandbox.text(std::move(result), is_markup);
}

// ---- text.format(...) ----

namespace {

Spec read_brace_spec(Sandbox& sandbox, std::string_view text) {
  Spec spec;
  Reader reader(sandbox, text);
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    size_t after_fill = 0;
    (void)next_code_point(text, after_fill);
    if (is_align(reader.peek(after_fill))) {
      spec.fill = text.substr(0, after_fill);
      spec.align = text[after_fill];
      reader.skip(after_fill + 1);
    } else if (is_align(reader.peek())) {
      spec.align = reader.take();
    }
  }
  if (reader.peek() == '+' || reader.peek() == '-' || reader.peek() == ' ') {
    spec.sign = reader.take();
  }
  spec.is_alternate = reader.take_if('#');
  if (reader.peek() == '0' && spec.align == 0) {
    spec.align = '=';
    spec.fill = "0";
  }
  if (is_digit(reader.peek())) spec.width = reader.number().value_or(0);
  if (reader.peek() == ',' || reader.peek() == '_') spec.grouping = reader.take();
  if (reader.take_if('.')) {
    spec.precision = reader.number();
    if (!spec.precision) sandbox.fail("Format specifier missing precision");
  }
  if (!reader.at_end()) spec.type = reader.take();
  if (!reader.at_end()) sandbox.fail(fmt::format("Invalid format specifier '{}'", text));
  check_spec(sandbox, spec);
  return spec;
}

std::string apply_spec(Sandbox& sandbox, const Value& value, std::string_view text) {
  if (text.empty()) return to_str(sandbox, value);
  const Spec spec = read_brace_spec(sandbox, text);
  const std::string_view type(&spec.type, spec.type == 0 ? 0 : 1);
  const auto is_one_of = [&](std::string_view types) {
    return type.empty() || types.find(type) != std::string_view::npos;
  };
  if (value.is_text() && is_one_of("s") && spec.align != '=') {
    return format_string(sandbox, spec, value.text()->bytes);
  }
  if (value.is_number()) {
    const auto integer = value.as_integer();
    if (integer && is_one_of("dxXob") && !spec.precision) {
      return format_integer(sandbox, spec, *integer);
    }
    const bool is_plain_float_with_precision = type.empty() && spec.precision;
    if (!is_plain_float_with_precision && is_one_of("eEfFgG%")) {
      return format_floating(sandbox, spec, to_double(value));
    }
  }
  sandbox.fail(
      fmt::format("format specifier '{}' is not supported for '{}'", text, type_name(value)));
}

class BraceFormatter {
 public:
  BraceFormatter(Sandbox& sandbox, const Args& args) : sandbox_(sandbox), args_(args) {}

  // `depth`: a format spec may hold fields, those may not.
  std::string format(std::string_view text, int depth) {
    if (depth > 2) sandbox_.fail("Max string recursion exceeded");
    sandbox_.charge_scan(text.size());
    std::string result;
    Reader reader(sandbox_, text);
    while (!reader.at_end()) {
      result += reader.until("{}");
      if (reader.at_end()) break;
      const char brace = reader.take();
      if (reader.take_if(brace)) {
        result += brace;
      } else if (brace == '}') {
        sandbox_.fail("Single '}' encountered in format string");
      } else {
        const std::string part = field(reader, depth);
        sandbox_.check_text_size(result.size() + part.size());
        result += part;
      }
    }
    return result;
  }

 private:
  std::string field(Reader& reader, int depth) {
    std::string_view name = reader.until("!:}{[");
    std::string path;
    while (reader.peek() == '[') {  // an index may hold ! and :
      path += reader.until("]");
      path += reader.take();
      path += reader.until("!:}{[");
    }
    const size_t dot = std::min(name.find('.'), name.size());
    path = std::string(name.substr(dot)) + path;
    Value value = follow(first(std::string(name.substr(0, dot))), path);
    if (reader.take_if('!')) {
      const char conversion = reader.take();
      if (conversion == 's') {
        value = sandbox_.text(to_str(sandbox_, value));
      } else if (conversion == 'r' || conversion == 'a') {
        value = sandbox_.text(to_repr(sandbox_, value));
      } else {
        sandbox_.fail(fmt::format("Unknown conversion specifier {}", conversion));
      }
    }
    std::string spec;
    if (reader.take_if(':')) spec = format(spec_text(reader), depth + 1);
    if (!reader.take_if('}')) sandbox_.fail("expected '}' before end of string");
    return apply_spec(sandbox_, value, spec);
  }

  // Everything up to the brace that closes the field.
  std::string_view spec_text(Reader& reader) {
    const std::string_view rest = reader.rest();
    int open = 0;
    size_t size = 0;
    for (; size < rest.size(); ++size) {
      if (rest[size] == '{') ++open;
      if (rest[size] == '}' && open-- == 0) break;
    }
    reader.skip(size);
    return rest.substr(0, size);
  }

  Value first(const std::string& name) {
    const bool is_number = !name.empty() && std::all_of(name.begin(), name.end(), is_digit);
    if (name.empty() || is_number) {
      const size_t index = name.empty() ? next_++ : parse_index(name);
      if (index >= args_.positional.size()) {
        sandbox_.fail("Replacement index out of range for positional args tuple");
      }
      return args_.positional[index];
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    sandbox_.fail(fmt::format("key {} is missing", text_repr(name)));
  }

  size_t parse_index(const std::string& digits) const {
    size_t value = 0;
    const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec;
    if (error != std::errc{}) sandbox_.fail("Too many decimal digits in format string");
    return value;
  }

  // ".name[key]..." from `value`
  Value follow(Value value, std::string_view path) {
    while (!path.empty()) {
      const bool is_attribute = path.front() == '.';
      path.remove_prefix(1);
      const size_t end = std::min(path.find_first_of(is_attribute ? ".[" : "]"), path.size());
      const std::string name(path.substr(0, end));
      if (name.empty()) sandbox_.fail("Empty attribute in format string");
      path.remove_prefix(std::min(path.size(), is_attribute ? end : end + 1));
      if (is_attribute) {
        value = attribute(sandbox_, value, name);
      } else if (std::all_of(name.begin(), name.end(), is_digit)) {
        value = subscript(sandbox_, value, Value(static_cast<int64_t>(parse_index(name))));
      } else {
        value = subscript(sandbox_, value, sandbox_.text(name));
      }
    }
    return value;
  }

  Sandbox& sandbox_;
  const Args& args_;
  size_t next_ = 0;
};

}  // namespace

std::string format_braces(Sandbox& sandbox, std::string_view text, const Args& args) {
  return BraceFormatter(sandbox, args).format(text, 1);
}

}  // namespace reprise::chat_template
