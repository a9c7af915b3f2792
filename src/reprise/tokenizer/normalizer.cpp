#include "reprise/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <array>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/character_class.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 9> kNormalizers = {
    "Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend", "Replace", "Strip"};

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

  void operator()(UnicodeForm form) const { result.text = to_unicode_form(result.text, form); }
  void operator()(const PrependText& step) const {
    if (!result.text.empty()) result.text.insert(0, step.text);
  }
  void operator()(const ReplaceText& step) const {
    result.text = step.pattern.replace_all(result.text, step.replacement);
  }
  void operator()(Lowercase) const { result.text = lowercased(result.text); }
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
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
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

Normalizer::Result Normalizer::apply(std::string_view text) const {
  Result result{std::string(text), true};
  for (const Step& step : steps_) std::visit(ApplyNormalizer{result}, step);
  return result;
}

}  // namespace reprise::tokenizer
