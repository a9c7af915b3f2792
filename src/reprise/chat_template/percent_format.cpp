#include "reprise/chat_template/percent_format.h"

#include <fmt/format.h>

#include <cmath>

#include "reprise/chat_template/format_spec.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"

namespace reprise::chat_template {
namespace {

FormatSpec read_percent_spec(Sandbox& sandbox, FormatReader& reader, auto next_value) {
  FormatSpec spec;
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

std::string convert_percent(Sandbox& sandbox, FormatSpec spec, const Value& value) {
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
      return format_floating(sandbox, spec, static_cast<double>(value.as_number()));
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
  FormatReader reader(sandbox, text.text()->bytes);
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
    const FormatSpec spec = read_percent_spec(sandbox, reader, next_value);
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

}  // namespace reprise::chat_template
