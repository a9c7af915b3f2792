#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/precompiled_map.h"
#include "reprise/tokenizer/regex.h"
#include "reprise/tokenizer/unicode_form.h"

namespace reprise::tokenizer {

struct PrependText {
  std::string text;
};
struct ReplaceText {
  Pattern pattern;
  std::string replacement;
};
struct Lowercase {};
/// Drops every mark (category M). After NFD or NFKD an accent is a mark.
struct StripAccents {};
/// The four steps of BERT's normalizer, in this order.
struct BertText {
  bool cleans = true;            // drops control characters; white space becomes spaces
  bool isolates_chinese = true;  // puts spaces around these characters
  bool strips_accents = true;    // drops nonspacing marks after NFD
  bool is_lower_case = true;
};
struct StripSpaces {
  bool left = true;
  bool right = true;
};

/// The "normalizer" of tokenizer.json: a flat list of steps that change a text before it is split.
class Normalizer {
 public:
  Normalizer() = default;
  /// \throws FileError for a type that is not supported
  explicit Normalizer(const Component& component);

  struct Result {
    std::string text;
    /// False if text was stripped from the start: then the result does not count as the start of
    /// the input.
    bool keeps_start = true;
  };
  /// \pre `text` is well-formed UTF-8. \throws Abandoned from `work`, and InvalidArgument if the
  /// result would be longer than BoundedText::most_normalized_bytes()
  [[nodiscard]] Result apply(std::string_view text, WorkMeter& work) const;
  /// Without a limit on the work.
  [[nodiscard]] Result apply(std::string_view text) const {
    WorkMeter no_limit;
    return apply(text, no_limit);
  }

 private:
  using Step = std::variant<UnicodeForm,
                            PrependText,
                            ReplaceText,
                            Lowercase,
                            StripAccents,
                            StripSpaces,
                            BertText,
                            PrecompiledMap>;
  void add(const Component& component);

  std::vector<Step> steps_;
};

}  // namespace reprise::tokenizer
