#include "reprise/tokenizer/incremental_detokenizer.h"

namespace reprise::tokenizer {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer),
      stream_(tokenizer.decoder()),
      skip_special_tokens_(skip_special_tokens) {}

void IncrementalDetokenizer::append(int32_t id, std::string& out) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return;
  if (const auto token = tokenizer_->id_to_token(id)) stream_.push(*token, out);
}

std::string IncrementalDetokenizer::push(int32_t id) {
  std::string out;
  append(id, out);
  return out;
}

std::string IncrementalDetokenizer::push(std::span<const int32_t> ids) {
  std::string out;
  for (const int32_t id : ids) append(id, out);
  return out;
}

std::string IncrementalDetokenizer::flush() {
  std::string out;
  stream_.finish(out);
  return out;
}

}  // namespace reprise::tokenizer
