#include "reprise/chat_template/text_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/chat_template/brace_format.h"
#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/text_operations.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {

namespace {

const std::string& bytes_of(const Value& value) { return value.text()->bytes; }

Value like(Sandbox& sandbox, const Value& self, std::string_view bytes) {
  sandbox.check_text_size(bytes.size());
  return sandbox.text(std::string(bytes), self.text()->is_markup);
}

Value list_like(Sandbox& sandbox, const Value& self, const std::vector<std::string_view>& parts) {
  sandbox.check_item_count(parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const auto part : parts) items.push_back(like(sandbox, self, part));
  return sandbox.list(std::move(items));
}

template <unicode::Side side>
Value strip(Sandbox& sandbox, const Value& self, const Bound& args) {
  sandbox.charge_scan(bytes_of(self).size());
  if (!args.is_given(0)) return like(sandbox, self, unicode::strip(bytes_of(self), side));
  const Text& chars = require_text(sandbox, args[0], "strip arg");
  return like(sandbox, self, unicode::strip(bytes_of(self), chars.bytes, side));
}

std::vector<std::string_view> split_on_space(std::string_view text, uint64_t max, bool from_right) {
  std::vector<std::string_view> parts;
  std::string_view rest = from_right ? unicode::strip(text, unicode::Side::right)
                                     : unicode::strip(text, unicode::Side::left);
  while (!rest.empty()) {
    if (parts.size() == max) {
      parts.push_back(rest);
      break;
    }
    if (from_right) {
      size_t start = rest.size();  // walks back to the last space
      while (start > 0) {
        const size_t previous = previous_boundary(rest, start);
        size_t after = previous;
        if (unicode::is_space(next_code_point(rest, after))) break;
        start = previous;
      }
      parts.push_back(rest.substr(start));
      rest = unicode::strip(rest.substr(0, start), unicode::Side::right);
    } else {
      size_t end = 0;
      for (size_t offset = 0; offset < rest.size(); end = offset) {
        if (unicode::is_space(next_code_point(rest, offset))) break;
      }
      parts.push_back(rest.substr(0, end));
      rest = unicode::strip(rest.substr(end), unicode::Side::left);
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_on(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  size_t offset = 0;
  for (size_t hit = 0; (hit = unicode::find(text, separator, offset)) != std::string_view::npos;) {
    parts.push_back(text.substr(offset, hit - offset));
    offset = hit + separator.size();
  }
  parts.push_back(text.substr(offset));
  return parts;
}

// rsplit() finds overlapping separators from the right, so the search runs on the reversed text.
std::vector<std::string_view> rsplit_on(std::string_view text,
                                        std::string_view separator,
                                        uint64_t max) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string needle(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts;
  size_t offset = 0;
  while (parts.size() < max) {
    const size_t hit = unicode::find(reversed, needle, offset);
    if (hit == std::string::npos) break;
    parts.push_back(text.substr(text.size() - hit, hit - offset));
    offset = hit + needle.size();
  }
  parts.push_back(text.substr(0, text.size() - offset));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Value split(Sandbox& sandbox, const Value& self, const Bound& args) {
  const std::string& text = bytes_of(self);
  sandbox.charge_scan(text.size());
  const int64_t max = args.has(1) ? require_integer(sandbox, args[1], "maxsplit") : -1;
  const uint64_t most = max < 0 ? UINT64_MAX : static_cast<uint64_t>(max);
  if (!args.is_given(0)) return list_like(sandbox, self, split_on_space(text, most, from_right));
  const Text& separator = require_text(sandbox, args[0], "separator");
  if (separator.bytes.empty()) sandbox.fail("empty separator");
  if (from_right) return list_like(sandbox, self, rsplit_on(text, separator.bytes, most));
  auto parts = split_on(text, separator.bytes);
  if (parts.size() - 1 > most) {  // the last part is the whole rest of the text
    const char* begin = parts[most].data();
    parts.resize(most + 1);
    parts.back() = std::string_view(begin, static_cast<size_t>(text.data() + text.size() - begin));
  }
  return list_like(sandbox, self, parts);
}

Value splitlines(Sandbox& sandbox, const Value& self, const Bound& args) {
  sandbox.charge_decode(bytes_of(self).size());
  return list_like(sandbox, self, split_lines(bytes_of(self), args.truthy(0)));
}

// The part text[start:end] that find(), count() and startswith() search.
struct Window {
  std::string_view bytes;
  int64_t start = 0;     // in code points
  bool is_valid = true;  // start <= len(text)
};

Window window(Sandbox& sandbox, const Value& self, const Bound& args, size_t first) {
  const Text& text = *self.text();
  sandbox.charge_decode(text.bytes.size());
  const auto length = static_cast<int64_t>(text.length);
  const auto bound = [&](size_t index, int64_t fallback) {
    if (!args.is_given(index)) return fallback;
    const int64_t value = require_integer(sandbox, args[index], "slice indices");
    return value < 0 ? std::max<int64_t>(0, std::max(value, -length) + length) : value;
  };
  const int64_t start = bound(first, 0);
  const int64_t end = std::min(bound(first + 1, length), length);
  if (start > length || start > end) return {.bytes = {}, .start = start, .is_valid = false};
  const size_t from = text.offset_of(start);
  const size_t to = text.offset_of(end);
  return {.bytes = std::string_view(text.bytes).substr(from, to - from), .start = start};
}

template <bool at_end>
Value has_affix(Sandbox& sandbox, const Value& self, const Bound& args) {
  const Window part = window(sandbox, self, args, 1);
  const auto matches = [&](const Value& affix) {
    const std::string& bytes = require_text(sandbox, affix, "affix").bytes;
    if (!part.is_valid) return false;
    return at_end ? part.bytes.ends_with(bytes) : part.bytes.starts_with(bytes);
  };
  const Sequence* affixes = args[0].sequence();
  if (affixes != nullptr && affixes->flavor == Sequence::Flavor::tuple) {
    return Value(std::any_of(affixes->items.begin(), affixes->items.end(), matches));
  }
  return Value(matches(args[0]));
}

template <bool from_right, bool must_exist>
Value find(Sandbox& sandbox, const Value& self, const Bound& args) {
  const std::string& needle = require_text(sandbox, args[0], "argument").bytes;
  const Window part = window(sandbox, self, args, 1);
  size_t hit = std::string_view::npos;
  if (part.is_valid) {
    hit = from_right ? unicode::rfind(part.bytes, needle) : unicode::find(part.bytes, needle);
  }
  if (hit != std::string_view::npos) {
    return Value(part.start + static_cast<int64_t>(count_code_points(part.bytes.substr(0, hit))));
  }
  if (must_exist) sandbox.fail("substring not found");
  return Value(int64_t{-1});
}

Value count(Sandbox& sandbox, const Value& self, const Bound& args) {
  const std::string& needle = require_text(sandbox, args[0], "argument").bytes;
  const Window part = window(sandbox, self, args, 1);
  if (!part.is_valid) return Value(int64_t{0});
  if (needle.empty()) return Value(static_cast<int64_t>(count_code_points(part.bytes)) + 1);
  int64_t hits = 0;
  size_t offset = 0;
  while ((offset = unicode::find(part.bytes, needle, offset)) != std::string_view::npos) {
    ++hits;
    offset += needle.size();
  }
  return Value(hits);
}

Value replace(Sandbox& sandbox, const Value& self, const Bound& args) {
  const Text& old_part = require_text(sandbox, args[0], "replace() argument 1");
  const Text& new_part = require_text(sandbox, args[1], "replace() argument 2");
  const int64_t most = args.has(2) ? require_integer(sandbox, args[2], "count") : -1;
  const bool escapes = self.text()->is_markup && !new_part.is_markup;
  const std::string by = escapes ? escape_html(new_part.bytes) : new_part.bytes;
  return like(sandbox, self, replace_text(sandbox, bytes_of(self), old_part.bytes, by, most));
}

Value join_parts(Sandbox& sandbox, const Value& self, const Bound& args) {
  std::vector<std::string> parts;
  for (const Value& item : iterate(sandbox, args[0])) {
    if (self.text()->is_markup) {
      const Value text = to_text(sandbox, item);
      parts.push_back(text.text()->is_markup ? bytes_of(text) : escape_html(bytes_of(text)));
    } else {
      if (!item.is_text()) {
        sandbox.fail(fmt::format(
            "sequence item {}: expected str instance, {} found", parts.size(), type_name(item)));
      }
      parts.push_back(bytes_of(item));
    }
  }
  return like(sandbox, self, join_texts(sandbox, bytes_of(self), parts));
}

Value format(Sandbox& sandbox, const Value& self, const Bound& args) {
  return like(sandbox, self, format_braces(sandbox, bytes_of(self), args.raw()));
}

template <Justify justify>
Value pad(Sandbox& sandbox, const Value& self, const Bound& args) {
  const std::string fill = args.has(1) ? require_text(sandbox, args[1], "fill").bytes : " ";
  if (count_code_points(fill) != 1)
    sandbox.fail("The fill character must be exactly one character long");
  const int64_t width = require_integer(sandbox, args[0], "width");
  return like(sandbox, self, pad_text(sandbox, bytes_of(self), width, fill, justify));
}

Value zfill(Sandbox& sandbox, const Value& self, const Bound& args) {
  const std::string& text = bytes_of(self);
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  const int64_t width = require_integer(sandbox, args[0], "width");
  const int64_t digits = width > INT64_MIN + 1 ? width - static_cast<int64_t>(sign) : width;
  return like(
      sandbox,
      self,
      text.substr(0, sign) + pad_text(sandbox, text.substr(sign), digits, "0", Justify::right));
}

template <bool at_end>
Value remove_affix(Sandbox& sandbox, const Value& self, const Bound& args) {
  std::string_view text = bytes_of(self);
  const std::string& affix = require_text(sandbox, args[0], "the affix").bytes;
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return like(sandbox, self, text);
}

template <bool from_right>
Value partition(Sandbox& sandbox, const Value& self, const Bound& args) {
  const std::string_view text = bytes_of(self);
  const std::string& separator = require_text(sandbox, args[0], "separator").bytes;
  if (separator.empty()) sandbox.fail("empty separator");
  sandbox.charge_scan(text.size());
  const size_t hit = from_right ? unicode::rfind(text, separator) : unicode::find(text, separator);
  std::array<std::string_view, 3> parts = {text, "", ""};
  if (hit != std::string_view::npos) {
    parts = {text.substr(0, hit), separator, text.substr(hit + separator.size())};
  } else if (from_right) {
    parts = {"", "", text};
  }
  std::vector<Value> items;
  for (const auto part : parts) items.push_back(like(sandbox, self, part));
  return sandbox.tuple(std::move(items));
}

template <bool (*predicate)(char32_t)>
Value all_are(Sandbox& sandbox, const Value& self, const Bound&) {
  const std::string& text = bytes_of(self);
  sandbox.charge_decode(text.size());
  for (size_t offset = 0; offset < text.size();) {
    if (!predicate(next_code_point(text, offset))) return Value(false);
  }
  return Value(!text.empty());
}

bool is_alphanumeric(char32_t c) { return unicode::is_letter(c) || unicode::is_decimal(c); }

// True when the text has letters of the wanted case and no letter of the other case.
template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value has_case(Sandbox& sandbox, const Value& self, const Bound&) {
  const std::string& text = bytes_of(self);
  sandbox.charge_decode(text.size());
  bool has_wanted = false;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = next_code_point(text, offset);
    if (other(c)) return Value(false);
    has_wanted = has_wanted || wanted(c);
  }
  return Value(has_wanted);
}

using unicode::Side;
constexpr auto kMethods = std::to_array<Builtin>({
    {"capitalize", "", 0, change_text<capitalize_text>},
    {"casefold", "", 0, change_text<unicode::lower>},
    {"center", "/width /fill", 1, pad<Justify::center>},
    {"count", "/sub /start /end", 1, count},
    {"endswith", "/suffix /start /end", 1, has_affix<true>},
    {"find", "/sub /start /end", 1, find<false, false>},
    {"format", "*", 0, format},
    {"index", "/sub /start /end", 1, find<false, true>},
    {"isalnum", "", 0, all_are<is_alphanumeric>},
    {"isalpha", "", 0, all_are<unicode::is_letter>},
    {"isdecimal", "", 0, all_are<unicode::is_decimal>},
    {"isdigit", "", 0, all_are<unicode::is_decimal>},
    {"islower", "", 0, has_case<unicode::is_lower, unicode::is_upper>},
    {"isnumeric", "", 0, all_are<unicode::is_decimal>},
    {"isspace", "", 0, all_are<unicode::is_space>},
    {"isupper", "", 0, has_case<unicode::is_upper, unicode::is_lower>},
    {"join", "/iterable", 1, join_parts},
    {"ljust", "/width /fill", 1, pad<Justify::left>},
    {"lower", "", 0, change_text<unicode::lower>},
    {"lstrip", "/chars", 0, strip<Side::left>},
    {"partition", "/sep", 1, partition<false>},
    {"removeprefix", "/prefix", 1, remove_affix<false>},
    {"removesuffix", "/suffix", 1, remove_affix<true>},
    {"replace", "/old /new /count", 2, replace},
    {"rfind", "/sub /start /end", 1, find<true, false>},
    {"rindex", "/sub /start /end", 1, find<true, true>},
    {"rjust", "/width /fill", 1, pad<Justify::right>},
    {"rpartition", "/sep", 1, partition<true>},
    {"rsplit", "sep maxsplit", 0, split<true>},
    {"rstrip", "/chars", 0, strip<Side::right>},
    {"split", "sep maxsplit", 0, split<false>},
    {"splitlines", "keepends", 0, splitlines},
    {"startswith", "/prefix /start /end", 1, has_affix<false>},
    {"strip", "/chars", 0, strip<Side::both>},
    {"swapcase", "", 0, change_text<swap_case>},
    {"title", "", 0, change_text<title_text>},
    {"upper", "", 0, change_text<unicode::upper>},
    {"zfill", "/width", 1, zfill},
});

}  // namespace

const Builtin* find_text_method(std::string_view name) { return find_in(kMethods, name); }

}  // namespace reprise::chat_template
