#include "reprise/tokenizer/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "reprise/tokenizer/byte_alphabet.h"
#include "reprise/tokenizer/pre_tokenizer.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 8> kDecoders = {
    "Sequence", "ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace", "WordPiece"};

/// Far above the growth in published files. Chained replacements multiply, for each token of each
/// answer.
constexpr size_t kMaxGrowth = 64;

// Source: the crate `tokenizers`, decoders/wordpiece.rs.
void clean_up(std::string& token) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kReplacements) {
    for (size_t at = token.find(from); at != std::string::npos; at = token.find(from, at)) {
      token.replace(at, from.size(), to);
      at += to.size();
    }
  }
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

/// The byte that "<0xNN>" stands for.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto high = hex_digit(token[3]);
  const auto low = hex_digit(token[4]);
  if (!low) return std::nullopt;
  // The reference accepts a sign in this number, so "<0x+A>" is a byte too.
  if (token[3] == '+') return static_cast<char>(*low);
  if (!high) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

size_t leading(std::string_view text, std::string_view character, size_t limit) {
  size_t count = 0;
  while (count < limit && text.substr(count * character.size()).starts_with(character)) ++count;
  return count;
}

size_t trailing(std::string_view text, std::string_view character, size_t limit) {
  size_t count = 0;
  while (count < limit && text.ends_with(character)) {
    text.remove_suffix(character.size());
    ++count;
  }
  return count;
}

}  // namespace

Decoder::Decoder(const Component& component) {
  if (component.is_null()) {
    steps_.emplace_back(JoinWithSpaces{});
  } else {
    add(component);
  }
}

void Decoder::add(const Component& component) {
  const std::string type = component.type();
  if (is_fused_ && type != "Strip" && type != "Fuse" && type != "Sequence") {
    component.at("type").fail(fmt::format(
        "decoder '{}' after Fuse or ByteLevel is not supported; only Strip and Fuse are", type));
  }
  if (type == "Sequence") {
    for (const Component& child : component.elements("decoders")) add(child);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(LettersToBytes{});
    is_fused_ = true;
  } else if (type == "Replace") {
    ReplaceInToken step{Pattern(component.at("pattern")), component.at("content").text()};
    const size_t growth = step.replacement.size() / step.pattern.least_match_bytes();
    growth_ *= std::clamp<size_t>(growth, 1, kMaxGrowth + 1);
    if (growth_ > kMaxGrowth) {
      component.at("content").fail(fmt::format(
          "the decoder makes a token more than {} times as long; published ones do not make it "
          "longer",
          kMaxGrowth));
    }
    steps_.push_back(std::move(step));
  } else if (type == "ByteFallback") {
    steps_.emplace_back(JoinBytePieces{});
  } else if (type == "Fuse") {
    steps_.emplace_back(FuseTokens{});
    is_fused_ = true;
  } else if (type == "Strip") {
    StripCharacter step;
    append_utf8(component.at("content").character(), step.character);
    // Published files strip one space. The limit bounds the text that a stream must hold back.
    step.start = component.at("start").integer(1024);
    step.stop = component.at("stop").integer(1024);
    step.is_fused = is_fused_;
    steps_.emplace_back(std::move(step));
  } else if (type == "Metaspace") {
    MetaspaceToSpaces step;
    append_utf8(component.at("replacement").character(), step.replacement);
    if (component.has("prepend_scheme")) {
      step.drops_first =
          parse_prepend_scheme(component.at("prepend_scheme")) != PrependScheme::never;
    } else {
      step.drops_first = component.boolean_or("add_prefix_space", true);
    }
    steps_.emplace_back(std::move(step));
  } else if (type == "WordPiece") {
    steps_.emplace_back(
        JoinWordPieces{component.has("prefix") ? component.at("prefix").text() : std::string("##"),
                       component.boolean_or("cleanup", true)});
  } else {
    component.at("type").fail_unknown("decoder", type, kDecoders);
  }
}

DecodeStream::DecodeStream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.steps().size()) {}

struct DecodeStream::Feed {
  DecodeStream& stream;
  size_t index;
  std::string_view token;
  std::string& out;

  State& state() const { return stream.states_[index]; }
  void pass(std::string_view text) const { stream.feed(index + 1, text, out); }

  void operator()(JoinWithSpaces) const {
    if (state().has_input) pass(" ");
    state().has_input = true;
    pass(token);
  }
  void operator()(const ReplaceInToken& step) const {
    pass(step.pattern.replace_all(token, step.replacement));
  }
  void operator()(JoinBytePieces) const {
    if (const auto byte = byte_of(token)) {
      state().held.push_back(*byte);
      return;
    }
    stream.flush_byte_pieces(index, out);
    pass(token);
  }
  void operator()(FuseTokens) const { pass(token); }
  void operator()(const StripCharacter& step) const {
    if (step.is_fused) return stream.strip_text(index, step, token, out);
    std::string_view text = token;
    text.remove_prefix(leading(text, step.character, step.start) * step.character.size());
    text.remove_suffix(trailing(text, step.character, step.stop) * step.character.size());
    pass(text);
  }
  void operator()(const MetaspaceToSpaces& step) const {
    const bool drops = step.drops_first && !state().has_input;
    state().has_input = true;
    std::string text;
    for (size_t position = 0; position < token.size();) {
      const std::string_view character = token.substr(position, utf8_length(token[position]));
      position += character.size();
      if (character != step.replacement) {
        text.append(character);
      } else if (!drops) {
        text.push_back(' ');
      }
    }
    pass(text);
  }
  void operator()(const JoinWordPieces& step) const {
    std::string text(token);
    if (state().has_input) {
      if (!step.prefix.empty() && token.starts_with(step.prefix)) {
        text.erase(0, step.prefix.size());
      } else {
        text.insert(0, " ");
      }
    }
    state().has_input = true;
    if (step.cleans_up) clean_up(text);
    pass(text);
  }
  void operator()(LettersToBytes) const {
    std::string bytes;
    byte_alphabet().append_bytes(token, bytes);
    std::string text;
    state().utf8.push(bytes, text);
    pass(text);
  }
};

void DecodeStream::feed(size_t index, std::string_view token, std::string& out) {
  if (index == states_.size()) {
    out.append(token);
    return;
  }
  std::visit(Feed{*this, index, token, out}, decoder_->steps()[index]);
}

void DecodeStream::flush_byte_pieces(size_t index, std::string& out) {
  std::string bytes = std::exchange(states_[index].held, {});
  if (bytes.empty()) return;
  if (!is_valid_utf8(bytes)) {
    // The bytes are not UTF-8. The reference then replaces the whole run: one U+FFFD for each byte.
    const size_t count = bytes.size();
    bytes.clear();
    for (size_t i = 0; i < count; ++i) append_utf8(kReplacementCharacter, bytes);
  }
  feed(index + 1, bytes, out);
}

void DecodeStream::strip_text(size_t index,
                              const StripCharacter& step,
                              std::string_view text,
                              std::string& out) {
  State& state = states_[index];
  if (!state.has_input) {
    const size_t count = leading(text, step.character, step.start - state.num_taken);
    state.num_taken += count;
    text.remove_prefix(count * step.character.size());
    if (text.empty()) return;
    state.has_input = true;
  }
  std::string all = std::exchange(state.held, {});
  all.append(text);
  const size_t held_bytes = trailing(all, step.character, step.stop) * step.character.size();
  state.held = all.substr(all.size() - held_bytes);
  all.resize(all.size() - held_bytes);
  if (!all.empty()) feed(index + 1, all, out);
}

void DecodeStream::finish_step(size_t index, std::string& out) {
  State& state = states_[index];
  const Decoder::Step& step = decoder_->steps()[index];
  if (std::holds_alternative<JoinBytePieces>(step)) flush_byte_pieces(index, out);
  if (std::holds_alternative<LettersToBytes>(step)) {
    std::string text;
    state.utf8.finish(text);
    if (!text.empty()) feed(index + 1, text, out);
  }
  // The text that StripCharacter still holds is at the end of the whole text, so it is stripped.
  state = State{};
}

void DecodeStream::finish(std::string& out) {
  for (size_t index = 0; index < states_.size(); ++index) finish_step(index, out);
}

}  // namespace reprise::tokenizer
