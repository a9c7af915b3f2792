#include "reprise/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/character_class.h"
#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t position = previous_boundary(text, text.size());
  return is_word(next_code_point(text, position));
}

bool starts_with_word(std::string_view text) {
  size_t position = 0;
  return !text.empty() && is_word(next_code_point(text, position));
}

size_t start_of_trailing_spaces(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t previous = previous_boundary(text, begin);
    size_t position = previous;
    if (!is_whitespace(next_code_point(text, position))) break;
    begin = previous;
  }
  return begin;
}

size_t length_of_leading_spaces(std::string_view text) {
  size_t end = 0;
  for (size_t next = 0; next < text.size(); end = next) {
    if (!is_whitespace(next_code_point(text, next))) break;
  }
  return end;
}

AddedToken parse_token(const Component& component) {
  AddedToken token;
  token.id = static_cast<int32_t>(component.at("id").integer(Vocabulary::kMaxId - 1));
  token.content = component.at("content").text();
  token.special = component.boolean_or("special", false);
  token.single_word = component.boolean_or("single_word", false);
  token.lstrip = component.boolean_or("lstrip", false);
  token.rstrip = component.boolean_or("rstrip", false);
  token.normalized = component.boolean_or("normalized", !token.special);
  if (token.content.empty()) component.at("content").fail("an added token with empty content");
  if (token.content.size() > AddedTokens::kMaxContentBytes) {
    component.at("content").fail(fmt::format(
        "{} bytes, at most {} are accepted", token.content.size(), AddedTokens::kMaxContentBytes));
  }
  return token;
}

}  // namespace

AddedTokens::AddedTokens(const Component& component, const Normalizer& normalizer) {
  if (component.is_null()) return;
  const std::vector<Component> items = component.elements();
  tokens_.reserve(items.size());  // index_by_content_ holds views of the strings inside
  size_t total_bytes = 0;
  for (const Component& item : items) {
    AddedToken token = parse_token(item);
    total_bytes += token.content.size();
    if (total_bytes > kMaxTotalBytes) item.fail("the added tokens are too long together");
    if (find(token.content) != nullptr)
      item.fail(fmt::format("added token '{}' is repeated", token.content));
    if (find(token.id) != nullptr) item.fail(fmt::format("id {} is repeated", token.id));
    token.piece = token.normalized ? normalizer.apply(token.content).text : token.content;
    tokens_.push_back(std::move(token));
    index_by_id_.emplace(tokens_.back().id, tokens_.size() - 1);
    index_by_content_.emplace(tokens_.back().content, tokens_.size() - 1);
  }
  // Special tokens come first: of two tokens with the same normalized content, the special one
  // wins.
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      TokenTrie& trie = token.normalized ? normalized_ : raw_;
      if (!token.piece.empty()) trie.add(token.piece, static_cast<int32_t>(i));
    }
  }
}

std::vector<TextSegment> AddedTokens::split(std::string_view text,
                                            Stage stage,
                                            Special special,
                                            std::span<const size_t> plain_at) const {
  const TokenTrie& trie = stage == Stage::raw_text ? raw_ : normalized_;
  std::vector<TextSegment> segments;
  size_t done = 0;
  for (size_t from = 0; from < text.size();) {
    const TokenTrie::Match match = trie.find(text, from);
    if (match.value < 0) break;
    from = match.end;
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    if (token.special && (special == Special::as_text ||
                          std::binary_search(plain_at.begin(), plain_at.end(), match.begin))) {
      continue;
    }
    if (token.single_word &&
        (ends_with_word(text.substr(0, match.begin)) || starts_with_word(text.substr(match.end)))) {
      continue;
    }
    size_t begin = match.begin;
    size_t end = match.end;
    // The previous token may have taken the white space after it, even if this token starts inside
    // that white space.
    begin = std::max(begin, done);
    if (token.lstrip) begin = done + start_of_trailing_spaces(text.substr(done, begin - done));
    if (token.rstrip) end += length_of_leading_spaces(text.substr(end));
    if (done < begin) segments.push_back({done, begin, -1});
    segments.push_back({begin, end, token.id});
    done = std::max(done, end);
  }
  if (done < text.size()) segments.push_back({done, text.size(), -1});
  return segments;
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = index_by_id_.find(id);
  return found == index_by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = index_by_content_.find(content);
  return found == index_by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace reprise::tokenizer
