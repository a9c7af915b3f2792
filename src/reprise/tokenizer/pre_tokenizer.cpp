#include "reprise/tokenizer/pre_tokenizer.h"

#include <array>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/byte_alphabet.h"
#include "reprise/tokenizer/character_class.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 8> kPreTokenizers = {"Sequence",
                                                            "Split",
                                                            "ByteLevel",
                                                            "Digits",
                                                            "Metaspace",
                                                            "Punctuation",
                                                            "WhitespaceSplit",
                                                            "BertPreTokenizer"};

// Source: GPT-2's published encoder; ByteLevel(use_regex) means this expression.
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Cuts every piece along the spans that `find_spans(text, spans)` finds in it.
template <typename FindSpans>
void split_pieces(PieceList& list,
                  SplitBehavior behavior,
                  WorkMeter& work,
                  FindSpans&& find_spans) {
  std::vector<PieceList::Piece> result;
  result.reserve(list.pieces.size());
  std::vector<MatchSpan> spans;
  for (const PieceList::Piece& piece : list.pieces) {
    spans.clear();
    find_spans(list.view(piece), spans);
    work.count(piece.end - piece.begin);
    apply_split_behavior(behavior, spans);
    for (const MatchSpan& span : spans) {
      if (span.begin == span.end) continue;
      result.push_back({piece.begin + span.begin,
                        piece.begin + span.end,
                        piece.begins_input && span.begin == 0});
    }
  }
  list.pieces = std::move(result);
}

/// Rewrites every piece with `append(piece, out)`.
template <typename Append>
void rewrite_pieces(PieceList& list, WorkMeter& work, Append&& append) {
  std::string text;
  text.reserve(list.text.size() + list.text.size() / 2);
  for (PieceList::Piece& piece : list.pieces) {
    const size_t begin = text.size();
    work.count(piece.end - piece.begin);
    append(piece, text);
    piece.begin = begin;
    piece.end = text.size();
  }
  list.text = std::move(text);
}

struct ApplyPreTokenizer {
  PieceList& list;
  WorkMeter& work;

  void operator()(const SplitAtPattern& step) const {
    split_pieces(
        list, step.behavior, work, [&](std::string_view text, std::vector<MatchSpan>& spans) {
          step.pattern.split(text, spans, work);
          if (!step.invert) return;
          for (MatchSpan& span : spans) span.is_match = !span.is_match;
        });
  }

  void operator()(const SplitDigits& step) const {
    const auto behavior = step.individually ? SplitBehavior::isolated : SplitBehavior::contiguous;
    split_pieces(list, behavior, work, [](std::string_view text, std::vector<MatchSpan>& spans) {
      split_at_characters(text, spans, is_numeric);
    });
  }

  void operator()(const SplitPunctuation& step) const {
    split_pieces(
        list, step.behavior, work, [](std::string_view text, std::vector<MatchSpan>& spans) {
          split_at_characters(text, spans, is_punctuation);
        });
  }

  void operator()(SplitWhitespace) const {
    split_pieces(list,
                 SplitBehavior::removed,
                 work,
                 [](std::string_view text, std::vector<MatchSpan>& spans) {
                   split_at_characters(text, spans, is_whitespace);
                 });
  }

  void operator()(const ByteLevelLetters& step) const {
    if (step.add_prefix_space) {
      rewrite_pieces(list, work, [&](const PieceList::Piece& piece, std::string& out) {
        const std::string_view text = list.view(piece);
        if (!text.starts_with(' ')) out.push_back(' ');
        out.append(text);
      });
    }
    if (!step.word_pattern.empty()) {
      split_pieces(list,
                   SplitBehavior::isolated,
                   work,
                   [&](std::string_view text, std::vector<MatchSpan>& spans) {
                     step.word_pattern.front().split(text, spans, work);
                   });
    }
    rewrite_pieces(list, work, [&](const PieceList::Piece& piece, std::string& out) {
      byte_alphabet().append_letters(list.view(piece), out);
    });
  }

  void operator()(const MetaspaceMarks& step) const {
    rewrite_pieces(list, work, [&](const PieceList::Piece& piece, std::string& out) {
      const std::string_view text = list.view(piece);
      const bool prepends = step.prepend == PrependScheme::always ||
                            (step.prepend == PrependScheme::first && piece.begins_input);
      if (prepends && !text.starts_with(' ') && !text.starts_with(step.replacement)) {
        out.append(step.replacement);
      }
      for (const char c : text) {
        if (c == ' ') {
          out.append(step.replacement);
        } else {
          out.push_back(c);
        }
      }
    });
    if (!step.split) return;
    size_t position = 0;
    const char32_t mark = next_code_point(step.replacement, position);
    split_pieces(list,
                 SplitBehavior::merged_with_next,
                 work,
                 [&](std::string_view text, std::vector<MatchSpan>& spans) {
                   split_at_characters(text, spans, [&](char32_t c) { return c == mark; });
                 });
  }
};

ByteLevelLetters parse_byte_level(const Component& component) {
  ByteLevelLetters step{component.boolean_or("add_prefix_space", true), {}};
  if (component.boolean_or("use_regex", true)) {
    const Json pattern(kGpt2Words);
    step.word_pattern.emplace_back(Component(pattern, component.file(), component.pointer()));
  }
  return step;
}

MetaspaceMarks parse_metaspace(const Component& component) {
  MetaspaceMarks step;
  step.replacement.clear();
  append_utf8(component.at("replacement").character(), step.replacement);
  if (component.has("prepend_scheme")) {
    step.prepend = parse_prepend_scheme(component.at("prepend_scheme"));
  } else if (!component.boolean_or("add_prefix_space", true)) {
    step.prepend = PrependScheme::never;  // the older name of prepend_scheme
  }
  step.split = component.boolean_or("split", true);
  return step;
}

}  // namespace

PrependScheme parse_prepend_scheme(const Component& component) {
  static constexpr std::array<std::string_view, 3> kNames = {"always", "first", "never"};
  const std::string name = component.text();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<PrependScheme>(i);
  }
  component.fail_unknown("prepend scheme", name, kNames);
}

PreTokenizer::PreTokenizer(const Component& component) {
  if (!component.is_null()) add(component);
}

void PreTokenizer::add(const Component& component) {
  const std::string type = component.type();
  if (type == "Sequence") {
    for (const Component& child : component.elements("pretokenizers")) add(child);
  } else if (type == "Split") {
    steps_.emplace_back(SplitAtPattern{Pattern(component.at("pattern")),
                                       parse_split_behavior(component.at("behavior")),
                                       component.boolean_or("invert", false)});
  } else if (type == "ByteLevel") {
    steps_.emplace_back(parse_byte_level(component));
  } else if (type == "Digits") {
    steps_.emplace_back(SplitDigits{component.boolean_or("individual_digits", false)});
  } else if (type == "Metaspace") {
    steps_.emplace_back(parse_metaspace(component));
  } else if (type == "Punctuation") {
    steps_.emplace_back(SplitPunctuation{component.has("behavior")
                                             ? parse_split_behavior(component.at("behavior"))
                                             : SplitBehavior::isolated});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(SplitWhitespace{});
  } else if (type == "BertPreTokenizer") {
    steps_.emplace_back(SplitWhitespace{});
    steps_.emplace_back(SplitPunctuation{SplitBehavior::isolated});
  } else {
    component.at("type").fail_unknown("pre-tokenizer", type, kPreTokenizers);
  }
}

void PreTokenizer::apply(PieceList& list, WorkMeter& work) const {
  for (const Step& step : steps_) std::visit(ApplyPreTokenizer{list, work}, step);
}

}  // namespace reprise::tokenizer
