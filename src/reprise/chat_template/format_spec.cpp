#include "reprise/chat_template/format_spec.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/text_operations.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {
namespace {

// A double has no digits beyond this precision, only zeros. The limit keeps the buffer small.
constexpr int64_t kMaxPrecision = 1000;

std::string group_digits(const std::string& digits, char separator) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

Justify justify_of(char align) {
  if (align == '<') return Justify::left;
  return align == '^' ? Justify::format_center : Justify::right;
}

// Puts the sign in front and adds zeros or fill on the side that `spec.align` names.
std::string place_number(Sandbox& sandbox,
                         const FormatSpec& spec,
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
  return pad_text(sandbox, prefix + digits, spec.width, spec.fill, justify_of(align));
}

}  // namespace

std::string format_integer(Sandbox& sandbox, const FormatSpec& spec, int64_t value) {
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits;
  std::string prefix;
  switch (spec.type) {
    case 'x':
    case 'X':
    case 'o':
    case 'b':
      digits = fmt::format(fmt::runtime(std::string("{:") + spec.type + "}"), magnitude);
      if (spec.is_alternate) prefix = std::string("0") + spec.type;
      break;
    default:
      digits = std::to_string(magnitude);
  }
  if (spec.precision) digits = pad_text(sandbox, digits, *spec.precision, "0", Justify::right);
  if (spec.grouping != 0) digits = group_digits(digits, spec.grouping);
  return place_number(sandbox, spec, value < 0, prefix, digits);
}

std::string format_floating(Sandbox& sandbox, const FormatSpec& spec, double value) {
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

std::string format_string(Sandbox& sandbox, const FormatSpec& spec, std::string_view text) {
  if (spec.precision) {
    text = text.substr(0, offset_of_code_point(text, static_cast<size_t>(*spec.precision)));
  }
  const char align = spec.align == 0 ? '<' : spec.align;
  return pad_text(sandbox, text, spec.width, spec.fill, justify_of(align));
}

void check_spec(Sandbox& sandbox, const FormatSpec& spec) {
  sandbox.check_text_size(static_cast<uint64_t>(spec.width));
  if (spec.precision.value_or(0) > kMaxPrecision) sandbox.fail_limit("precision is too big");
}

}  // namespace reprise::chat_template
