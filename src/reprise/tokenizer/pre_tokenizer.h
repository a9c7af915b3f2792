#pragma once

#include <string>
#include <variant>
#include <vector>

#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/regex.h"
#include "reprise/tokenizer/split_behavior.h"

namespace reprise::tokenizer {

/// A text and the pieces into which the steps so far have cut it. The model never merges tokens
/// across the border of a piece.
struct PieceList {
  struct Piece {
    size_t begin = 0;
    size_t end = 0;
    bool begins_input = false;  // this text is at the start of the user's input
  };

  [[nodiscard]] std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }

  std::string text;
  std::vector<Piece> pieces;
};

struct SplitAtPattern {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};
struct SplitDigits {
  bool individually = false;
};
struct SplitPunctuation {
  SplitBehavior behavior = SplitBehavior::isolated;
};
struct SplitWhitespace {};
struct ByteLevelLetters {
  bool add_prefix_space = true;
  std::vector<Regex> word_pattern;  // GPT-2's expression, or nothing when use_regex is false
};
enum class PrependScheme { always, first, never };
struct MetaspaceMarks {
  std::string replacement = "\u2581";
  PrependScheme prepend = PrependScheme::always;
  bool split = true;
};
[[nodiscard]] PrependScheme parse_prepend_scheme(const Component& component);

/// The "pre_tokenizer" of tokenizer.json: a flat list of steps that cut text into pieces.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// \throws FileError for a type that is not supported or a bad pattern
  explicit PreTokenizer(const Component& component);

  /// \throws Abandoned when `work` says so
  void apply(PieceList& list, WorkMeter& work) const;

 private:
  using Step = std::variant<SplitAtPattern,
                            SplitDigits,
                            SplitPunctuation,
                            SplitWhitespace,
                            ByteLevelLetters,
                            MetaspaceMarks>;
  void add(const Component& component);

  std::vector<Step> steps_;
};

}  // namespace reprise::tokenizer
