#include "reprise/chat_template/brace_format.h"

#include <fmt/format.h>

#include "reprise/base/text/ascii.h"
#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/format_spec.h"
#include "reprise/chat_template/python_text.h"

namespace reprise::chat_template {
namespace {

FormatSpec read_brace_spec(Sandbox& sandbox, std::string_view text) {
  FormatSpec spec;
  FormatReader reader(sandbox, text);
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
  const FormatSpec spec = read_brace_spec(sandbox, text);
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
      return format_floating(sandbox, spec, static_cast<double>(value.as_number()));
    }
  }
  sandbox.fail(
      fmt::format("format specifier '{}' is not supported for '{}'", text, type_name(value)));
}

class BraceFormatter {
 public:
  BraceFormatter(Sandbox& sandbox, const Args& args) : sandbox_(sandbox), args_(args) {}

  // `depth`: a format spec may hold fields, but the specs of these fields may not.
  std::string format(std::string_view text, int depth) {
    if (depth > 2) sandbox_.fail("Max string recursion exceeded");
    sandbox_.charge_scan(text.size());
    std::string result;
    FormatReader reader(sandbox_, text);
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
  std::string field(FormatReader& reader, int depth) {
    std::string_view name = reader.until("!:}{[");
    std::string path;
    while (reader.peek() == '[') {  // an index may contain ! and :
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

  // Takes the text up to the brace that closes the replacement field.
  std::string_view spec_text(FormatReader& reader) {
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

  // Follows the path ".name[key]..." from `value`.
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
