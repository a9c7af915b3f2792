#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/regex.h"

namespace reprise::tokenizer {

struct JoinWithSpaces {};  // used when the file names no decoder
struct ReplaceInToken {
  Pattern pattern;
  std::string replacement;
};
struct JoinBytePieces {};  // "ByteFallback": turns runs of <0xNN> tokens into text
struct FuseTokens {};
struct StripCharacter {
  std::string character;
  size_t start = 0;       // the largest number of characters that are stripped from the front
  size_t stop = 0;        // the same from the back
  bool is_fused = false;  // strips the ends of the whole text, not those of each token
};
struct MetaspaceToSpaces {
  std::string replacement;
  bool drops_first = true;  // the first token's word marks are dropped instead of becoming spaces
};
struct LettersToBytes {};  // "ByteLevel"
struct JoinWordPieces {
  // Marks pieces that continue a word; other pieces begin a word, after a space.
  std::string prefix;
  bool cleans_up = true;  // drops the space before punctuation and English contractions
};

/// The "decoder" of tokenizer.json, a flat list of steps that turn tokens into text. Immutable;
/// DecodeStream runs it.
class Decoder {
 public:
  using Step = std::variant<JoinWithSpaces,
                            ReplaceInToken,
                            JoinBytePieces,
                            FuseTokens,
                            StripCharacter,
                            MetaspaceToSpaces,
                            LettersToBytes,
                            JoinWordPieces>;

  /// \throws FileError for a type or an order of types that is not supported
  explicit Decoder(const Component& component);

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  void add(const Component& component);

  std::vector<Step> steps_;
  bool is_fused_ = false;  // the steps so far give one text for all tokens, not one text per token
  size_t growth_ = 1;      // how many times as long replacements can make a token
};

/// Runs a Decoder over tokens one at a time. push() and finish() append well-formed UTF-8. All
/// appended text together equals the text of decoding all tokens at once: the stream holds text
/// back while a later token can still change it.
class DecodeStream {
 public:
  /// `decoder` must outlive this.
  explicit DecodeStream(const Decoder& decoder);

  void push(std::string_view token, std::string& out) { feed(0, token, out); }
  void finish(std::string& out);

 private:
  struct State {
    Utf8Stream utf8;         // used by LettersToBytes
    std::string held;        // byte pieces or trailing characters that may still change
    size_t num_taken = 0;    // StripCharacter: number of characters stripped from the front so far
    bool has_input = false;  // a token (StripCharacter: a kept character) has been seen
  };

  /// Passes `token` to step `index`; after the last step, to the output.
  void feed(size_t index, std::string_view token, std::string& out);
  void finish_step(size_t index, std::string& out);
  void flush_byte_pieces(size_t index, std::string& out);
  void strip_text(size_t index,
                  const StripCharacter& step,
                  std::string_view text,
                  std::string& out);

  struct Feed;
  const Decoder* decoder_;  // owned by the Tokenizer
  std::vector<State> states_;
};

}  // namespace reprise::tokenizer
