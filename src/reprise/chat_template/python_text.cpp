#include "reprise/chat_template/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  std::string sign;
  if (shortest.front() == '-') {
    sign = "-";
    shortest.remove_prefix(1);
  }
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* digits_of_exponent = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, shortest.data() + shortest.size(), exponent);
  std::string digits(shortest.substr(0, e));
  std::erase(digits, '.');
  const int count = static_cast<int>(digits.size());

  if (exponent < -4 || exponent >= 16) {  // when Python's repr uses an exponent
    std::string mantissa = digits.substr(0, 1);
    if (count > 1) mantissa += "." + digits.substr(1);
    return fmt::format(
        "{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  return sign + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

std::string text_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string result(1, quote);
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = next_code_point(text, offset);
    if (const size_t known = std::u32string_view(U"\\\n\r\t").find(c); known < 4) {
      result += '\\';
      result += "\\nrt"[known];
    } else if (c == static_cast<unsigned char>(quote)) {
      result += '\\';
      result += quote;
    } else if (unicode::is_printable(c)) {
      append_utf8(c, result);
    } else if (c < 0x100) {
      result += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      result += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      result += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  return result += quote;
}

namespace {

/// Appends to one string and checks its size before it grows.
class Output {
 public:
  explicit Output(Sandbox& sandbox) : sandbox_(sandbox) {}
  std::string take() { return std::move(out_); }

 protected:
  void append(std::string_view part) {
    sandbox_.check_text_size(out_.size() + part.size());
    sandbox_.charge_scan(part.size());
    out_.append(part);
  }

  Sandbox& sandbox_;

 private:
  std::string out_;
};

class Printer : public Output {
 public:
  using Output::Output;

  void str(const Value& value) {
    if (const Text* text = value.text()) {
      append(text->bytes);
    } else if (!value.is_undefined()) {
      repr(value);
    }
  }

  void repr(const Value& value) {
    const auto level = sandbox_.enter_eval();  // namespaces may hold themselves
    if (value.is_undefined()) {
      append("Undefined");
    } else if (value.is_none()) {
      append("None");
    } else if (value.is_bool()) {
      append(value.as_bool() ? "True" : "False");
    } else if (const auto integer = value.as_integer()) {
      append(std::to_string(*integer));
    } else if (value.is_float()) {
      append(float_repr(value.as_float()));
    } else if (const Text* text = value.text()) {
      append(text->is_markup ? "Markup(" + text_repr(text->bytes) + ")" : text_repr(text->bytes));
    } else if (const Sequence* sequence = value.sequence()) {
      repr(*sequence, type_name(value));
    } else if (const Dict* dict = value.dict()) {
      repr(*dict);
    } else {
      repr_object(value);
    }
  }

 private:
  void repr_items(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(", ");
      repr(items[i]);
    }
  }

  void repr(const Sequence& sequence, std::string_view type_name) {
    switch (sequence.flavor) {
      case Sequence::Flavor::list:
        append("[");
        repr_items(sequence.items);
        return append("]");
      case Sequence::Flavor::tuple:
        append("(");
        repr_items(sequence.items);
        return append(sequence.items.size() == 1 ? ",)" : ")");
      case Sequence::Flavor::range:
        return append(
            sequence.step == 1
                ? fmt::format("range({}, {})", sequence.start, sequence.stop)
                : fmt::format("range({}, {}, {})", sequence.start, sequence.stop, sequence.step));
      default:  // the views of a dict: dict_keys([...])
        break;
    }
    append(type_name);
    append("([");
    repr_items(sequence.items);
    append("])");
  }

  void repr(const Dict& dict) {
    append("{");
    bool is_first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!std::exchange(is_first, false)) append(", ");
      repr(key);
      append(": ");
      repr(value);
    }
    append("}");
  }

  // Python shows an address here. This engine leaves it out, because it differs from run to run.
  void repr_object(const Value& value) {
    if (const Namespace* ns = value.name_space()) {
      append("<Namespace {");
      bool is_first = true;
      for (const auto& [key, held] : ns->attributes) {
        if (!std::exchange(is_first, false)) append(", ");
        append(text_repr(key));
        append(": ");
        repr(held);
      }
      append("}>");
    } else if (Loop* loop = value.loop()) {
      append(fmt::format("<LoopContext {}/{}>", loop->index0 + 1, loop->length()));
    } else if (const Callable* callable = value.callable()) {
      append(fmt::format(
          "<{} {}>", callable->macro != nullptr ? "Macro" : "built-in", text_repr(callable->name)));
    } else {
      append("<generator object>");
    }
  }
};

class JsonPrinter : public Output {
 public:
  JsonPrinter(Sandbox& sandbox, const JsonStyle& style) : Output(sandbox), style_(style) {}

  void write(const Value& value) {
    const auto level = sandbox_.enter_eval();
    if (const Text* text = value.text()) {
      write_text(text->bytes);
    } else if (value.is_none() || value.is_bool() || value.is_number()) {
      append(scalar(value));
    } else if (const Dict* dict = value.dict()) {
      write(*dict);
    } else if (const Sequence* sequence = value.sequence();
               sequence != nullptr && sequence->flavor <= Sequence::Flavor::tuple) {
      write(sequence->items);
    } else {
      sandbox_.fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.as_bool() ? "true" : "false";
    if (const auto integer = value.as_integer()) return std::to_string(*integer);
    const double number = value.as_float();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_repr(number);
  }

  void write_escaped(char32_t c, std::string& out) const {
    static constexpr std::u32string_view kEscaped = U"\"\\\n\r\t\b\f";
    if (const size_t known = kEscaped.find(c); known != kEscaped.npos) {
      out += '\\';
      out += "\"\\nrtbf"[known];
      return;
    }
    const auto code = static_cast<uint32_t>(c);
    if (code < 0x20 || (style_.ensure_ascii && code >= 0x7F && code < 0x10000)) {
      out += fmt::format("\\u{:04x}", code);
    } else if (style_.ensure_ascii && code >= 0x10000) {
      const uint32_t rest = code - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      append_utf8(c, out);
    }
  }

  void write_text(std::string_view text) {
    std::string escaped = "\"";
    for (size_t offset = 0; offset < text.size();) {
      write_escaped(next_code_point(text, offset), escaped);
    }
    append(escaped += '"');
  }

  void new_line() {
    if (!style_.indent) return;
    append("\n");
    for (int i = 0; i < nesting_; ++i) append(*style_.indent);
  }

  void write(const std::vector<Value>& items) {
    if (items.empty()) return append("[]");
    append("[");
    ++nesting_;
    bool is_first = true;
    for (const Value& item : items) {
      if (!std::exchange(is_first, false)) append(style_.item_separator);
      new_line();
      write(item);
    }
    --nesting_;
    new_line();
    append("]");
  }

  void write(const Dict& dict) {
    if (dict.size() == 0) return append("{}");
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return compare(sandbox_, Comparison::less, a->first, b->first);
      });
    }
    append("{");
    ++nesting_;
    bool is_first = true;
    for (const auto* entry : entries) {
      if (!std::exchange(is_first, false)) append(style_.item_separator);
      new_line();
      write_key(entry->first);
      append(style_.key_separator);
      write(entry->second);
    }
    --nesting_;
    new_line();
    append("}");
  }

  void write_key(const Value& key) {
    if (const Text* text = key.text()) return write_text(text->bytes);
    if (key.is_none() || key.is_number()) return write_text(scalar(key));
    sandbox_.fail(
        fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }

  const JsonStyle& style_;
  int nesting_ = 0;
};

}  // namespace

std::string to_str(Sandbox& sandbox, const Value& value) {
  Printer printer(sandbox);
  printer.str(value);
  return printer.take();
}

std::string to_repr(Sandbox& sandbox, const Value& value) {
  Printer printer(sandbox);
  printer.repr(value);
  return printer.take();
}

Value to_text(Sandbox& sandbox, const Value& value) {
  return value.is_text() ? value : sandbox.text(to_str(sandbox, value));
}

std::string to_json(Sandbox& sandbox, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(sandbox, style);
  printer.write(value);
  return printer.take();
}

std::string escape_html(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    static constexpr std::string_view kSpecial = "&<>'\"";
    static constexpr std::array<std::string_view, 5> kEntities = {
        "&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    if (const size_t known = kSpecial.find(c); known != kSpecial.npos) {
      result += kEntities[known];
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace reprise::chat_template
