#include "reprise/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/character_class.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 12> kNormalizers = {"Sequence",
                                                           "NFC",
                                                           "NFD",
                                                           "NFKC",
                                                           "NFKD",
                                                           "Lowercase",
                                                           "Prepend",
                                                           "Replace",
                                                           "Strip",
                                                           "StripAccents",
                                                           "BertNormalizer",
                                                           "Precompiled"};

std::string lowercased(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    if (c == 0x130) {
      out.append("i\u0307");  // the only character whose lower case has two code points
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
    }
  }
  return out;
}

// Source: the crate `tokenizers`, normalizers/bert.rs.
std::string cleaned(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    if (is_whitespace(c) && !(c >= 0x0B && c <= 0x0C) && c != 0x85) {
      out.push_back(' ');
    } else if (c != 0 && c != 0xFFFD && !is_other(c)) {
      append_utf8(c, out);
    }
  }
  return out;
}

// Source: the same file; the fifth range begins where it does there.
bool is_chinese(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kRanges = {{{0x4E00, 0x9FFF},
                                                                     {0x3400, 0x4DBF},
                                                                     {0x20000, 0x2A6DF},
                                                                     {0x2A700, 0x2B73F},
                                                                     {0x2B740, 0x2B81F},
                                                                     {0x2B920, 0x2CEAF},
                                                                     {0xF900, 0xFAFF},
                                                                     {0x2F800, 0x2FA1F}}};
  return std::any_of(kRanges.begin(), kRanges.end(), [c](const auto& range) {
    return c >= range.first && c <= range.second;
  });
}

std::string with_isolated_chinese(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    const bool is_isolated = is_chinese(c);
    if (is_isolated) out.push_back(' ');
    append_utf8(c, out);
    if (is_isolated) out.push_back(' ');
  }
  return out;
}

std::string without_accents(std::string_view text) {
  const std::string decomposed = to_unicode_form(text, UnicodeForm::nfd);
  std::string out;
  out.reserve(decomposed.size());
  for (size_t position = 0; position < decomposed.size();) {
    const char32_t c = next_code_point(decomposed, position);
    if (!is_nonspacing_mark(c)) append_utf8(c, out);
  }
  return out;
}

std::string without_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    if (!is_mark(c)) append_utf8(c, out);
  }
  return out;
}

std::string_view strip_left(std::string_view text) {
  size_t begin = 0;
  for (size_t next = 0; next < text.size(); begin = next) {
    if (!is_whitespace(next_code_point(text, next))) break;
  }
  return text.substr(begin);
}

std::string_view strip_right(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = previous_boundary(text, end);
    size_t position = begin;
    if (!is_whitespace(next_code_point(text, position))) break;
    end = begin;
  }
  return text.substr(0, end);
}

struct ApplyNormalizer {
  Normalizer::Result& result;
  WorkMeter& work;
  size_t max_bytes;  // of the result

  void operator()(UnicodeForm form) const {
    result.text = to_unicode_form(result.text, form, max_bytes);
  }
  void operator()(const PrependText& step) const {
    if (result.text.empty()) return;
    BoundedText(max_bytes).check(result.text.size() + step.text.size());
    result.text.insert(0, step.text);
  }
  void operator()(const ReplaceText& step) const {
    result.text = step.pattern.replace_all(result.text, step.replacement, work, max_bytes);
  }
  void operator()(Lowercase) const { result.text = lowercased(result.text); }
  void operator()(StripAccents) const { result.text = without_marks(result.text); }
  void operator()(const BertText& step) const {
    if (step.cleans) result.text = cleaned(result.text);
    if (step.isolates_chinese) result.text = with_isolated_chinese(result.text);
    if (step.strips_accents) result.text = without_accents(result.text);
    if (step.is_lower_case) result.text = lowercased(result.text);
  }
  void operator()(const PrecompiledMap& map) const {
    result.text = map.apply(result.text, max_bytes);
  }
  void operator()(const StripSpaces& step) const {
    std::string_view text = result.text;
    if (step.left) text = strip_left(text);
    if (text.size() != result.text.size()) result.keeps_start = false;
    if (step.right) text = strip_right(text);
    result.text = std::string(text);
  }
};

}  // namespace

Normalizer::Normalizer(const Component& component) {
  if (!component.is_null()) add(component);
}

void Normalizer::add(const Component& component) {
  const std::string type = component.type();
  if (type == "Sequence") {
    for (const Component& child : component.elements("normalizers")) add(child);
  } else if (type == "NFC") {
    steps_.emplace_back(UnicodeForm::nfc);
  } else if (type == "NFD") {
    steps_.emplace_back(UnicodeForm::nfd);
  } else if (type == "NFKC") {
    steps_.emplace_back(UnicodeForm::nfkc);
  } else if (type == "NFKD") {
    steps_.emplace_back(UnicodeForm::nfkd);
  } else if (type == "BertNormalizer") {
    const bool is_lower_case = component.boolean_or("lowercase", true);
    steps_.emplace_back(BertText{component.boolean_or("clean_text", true),
                                 component.boolean_or("handle_chinese_chars", true),
                                 component.boolean_or("strip_accents", is_lower_case),
                                 is_lower_case});
  } else if (type == "Precompiled") {
    steps_.emplace_back(parse_precompiled_map(component.at("precompiled_charsmap")));
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else if (type == "StripAccents") {
    steps_.emplace_back(StripAccents{});
  } else if (type == "Prepend") {
    steps_.emplace_back(PrependText{component.at("prepend").text()});
  } else if (type == "Replace") {
    steps_.emplace_back(
        ReplaceText{Pattern(component.at("pattern")), component.at("content").text()});
  } else if (type == "Strip") {
    steps_.emplace_back(StripSpaces{component.boolean_or("strip_left", true),
                                    component.boolean_or("strip_right", true)});
  } else {
    component.at("type").fail_unknown("normalizer", type, kNormalizers);
  }
}

Normalizer::Result Normalizer::apply(std::string_view text, WorkMeter& work) const {
  Result result{std::string(text), true};
  const size_t max_bytes = BoundedText::most_normalized_bytes(text.size());
  for (const Step& step : steps_) {
    work.count(result.text.size());
    std::visit(ApplyNormalizer{result, work, max_bytes}, step);
    // The other steps make a text at most three times as long.
    BoundedText(max_bytes).check(result.text.size());
  }
  return result;
}

}  // namespace reprise::tokenizer
