#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reprise/tokenizer/decoder.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::tokenizer {

/// Turns a growing list of ids into text, piece by piece, for streaming. Each piece is well-formed
/// UTF-8; all pieces and flush() together equal Tokenizer::decode() of the whole list. The
/// detokenizer holds text back while the next id can still change it: the bytes of an unfinished
/// character and, if the tokenizer has <0xNN> tokens, a whole run of these.
///
/// One object per stream; not thread-safe. The Tokenizer must outlive it.
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens = true);

  /// The text that `id` completes; often empty.
  [[nodiscard]] std::string push(int32_t id);
  [[nodiscard]] std::string push(std::span<const int32_t> ids);
  /// Ends the stream and returns the text that was held back. The object is then ready for a new
  /// stream.
  [[nodiscard]] std::string flush();

 private:
  void append(int32_t id, std::string& out);

  const Tokenizer* tokenizer_;  // owned by the caller
  DecodeStream stream_;
  bool skip_special_tokens_;
};

}  // namespace reprise::tokenizer
