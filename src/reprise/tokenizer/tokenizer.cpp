#include "reprise/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/added_tokens.h"
#include "reprise/tokenizer/bpe_model.h"
#include "reprise/tokenizer/incremental_detokenizer.h"
#include "reprise/tokenizer/normalizer.h"
#include "reprise/tokenizer/post_processor.h"
#include "reprise/tokenizer/pre_tokenizer.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/token_model.h"
#include "reprise/tokenizer/tokenizer_file.h"

namespace reprise::tokenizer {
namespace {

/// Every id of `added` must be free or already stand for the same text.
void check_ids(const AddedTokens& added, const Vocabulary& vocabulary, std::string_view path) {
  for (const AddedToken& token : added.all()) {
    const auto fail = [&](std::string_view reason) {
      throw FileError("E_TOKENIZER",
                      path,
                      "/added_tokens",
                      fmt::format("'{}' with id {}: {}", token.content, token.id, reason));
    };
    const auto known_id = vocabulary.find(token.content);
    if (known_id && *known_id != token.id) {
      fail(fmt::format("/model/vocab gives it the id {}", *known_id));
    }
    const auto known_token = vocabulary.token(token.id);
    if (known_token && *known_token != token.content) {
      fail(fmt::format("/model/vocab gives this id to '{}'", *known_token));
    }
    const size_t num_tokens = vocabulary.size() + added.all().size();
    if (static_cast<size_t>(token.id) >= Vocabulary::kMaxSparseId + 8 * num_tokens) {
      fail("the id lies far beyond the number of tokens");
    }
  }
}

size_t end_of_ids(const AddedTokens& added, const Vocabulary& vocabulary) {
  int32_t end = vocabulary.end_id();
  for (const AddedToken& token : added.all()) end = std::max(end, token.id + 1);
  return static_cast<size_t>(end);
}

template <typename Predicate>
std::vector<bool> mark(const AddedTokens& added, size_t num_ids, Predicate&& is_marked) {
  std::vector<bool> marks(num_ids);
  for (const AddedToken& token : added.all()) {
    if (is_marked(token)) marks[static_cast<size_t>(token.id)] = true;
  }
  return marks;
}

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerFile file, std::string_view path, TokenizerConfig tokenizer_config)
      : config(std::move(tokenizer_config)),
        normalizer(Component(file.normalizer, path, "/normalizer")),
        pre_tokenizer(Component(file.pre_tokenizer, path, "/pre_tokenizer")),
        post_processor(Component(file.post_processor, path, "/post_processor")),
        decoder(Component(file.decoder, path, "/decoder")),
        added(Component(file.added_tokens, path, "/added_tokens"), normalizer),
        num_ids(end_of_ids(checked(added, file.vocabulary, path), file.vocabulary)),
        is_added(mark(added, num_ids, [](const AddedToken&) { return true; })),
        is_special(mark(added, num_ids, [](const AddedToken& token) { return token.special; })),
        model(file, is_special) {
    for (const std::vector<int32_t>* ids : {&post_processor.prefix, &post_processor.suffix}) {
      for (const int32_t id : *ids) {
        if (token(id)) continue;
        throw FileError(
            "E_TOKENIZER", path, "/post_processor", fmt::format("no token has the id {}", id));
      }
    }
    bos_id = find(config.bos_token);
    eos_id = find(config.eos_token);
  }

  static const AddedTokens& checked(const AddedTokens& added,
                                    const Vocabulary& vocabulary,
                                    std::string_view path) {
    check_ids(added, vocabulary, path);
    return added;
  }

  std::optional<int32_t> find(std::string_view text) const {
    if (const AddedToken* token = added.find(text)) return token->id;
    return model.vocabulary().find(text);
  }
  std::optional<int32_t> find(const std::optional<std::string>& text) const {
    return text ? find(std::string_view(*text)) : std::nullopt;
  }
  std::optional<std::string_view> token(int32_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= num_ids) return std::nullopt;
    if (is_added[static_cast<size_t>(id)]) return added.find(id)->piece;
    return model.vocabulary().token(id);
  }

  TokenizerConfig config;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  PostProcessor post_processor;
  Decoder decoder;
  AddedTokens added;
  size_t num_ids;
  std::vector<bool> is_added;
  std::vector<bool> is_special;
  TokenModel model;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
};

namespace {

/// One call of encode(): each stage passes text to the next one, and the last stage collects the
/// ids.
class Encoding {
 public:
  Encoding(const AddedTokens& added,
           const Normalizer& normalizer,
           const PreTokenizer& pre_tokenizer,
           const TokenModel& model,
           const EncodeOptions& options)
      : added_(added),
        normalizer_(normalizer),
        pre_tokenizer_(pre_tokenizer),
        model_(model),
        plain_at_(options.plain_at),
        work_(options.work) {
    set_special(options.parse_special ? AddedTokens::Special::as_token
                                      : AddedTokens::Special::as_text);
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) {
    const AddedTokens::Special special = special_;
    for (const TextSegment& segment :
         added_.split(text, AddedTokens::Stage::raw_text, special, plain_at_)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
        continue;
      }
      // `plain_at` has offsets of the original text, not of normalized text. A segment with such an
      // offset is therefore plain text as a whole.
      set_special(has_plain_token(segment) ? AddedTokens::Special::as_text : special);
      const std::string_view raw = text.substr(segment.begin, segment.end - segment.begin);
      encode_raw(raw, segment.begin == 0, ids);
    }
  }

 private:
  void set_special(AddedTokens::Special special) {
    special_ = special;
    allowed_ = special == AddedTokens::Special::as_token ? BpeModel::Allowed::every_token
                                                         : BpeModel::Allowed::no_control_tokens;
  }

  [[nodiscard]] bool has_plain_token(const TextSegment& segment) const {
    const auto first = std::lower_bound(plain_at_.begin(), plain_at_.end(), segment.begin);
    return first != plain_at_.end() && *first < segment.end;
  }

  void encode_raw(std::string_view raw, bool begins_input, std::vector<int32_t>& ids) {
    const Normalizer::Result normalized = normalizer_.apply(raw, work_);
    const std::string_view text = normalized.text;
    for (const TextSegment& segment :
         added_.split(text, AddedTokens::Stage::normalized_text, special_, {})) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
        continue;
      }
      PieceList list;
      list.text = text.substr(segment.begin, segment.end - segment.begin);
      list.pieces.push_back(
          {0, list.text.size(), begins_input && normalized.keeps_start && segment.begin == 0});
      encode_pieces(list, ids);
    }
  }

  void encode_pieces(PieceList& list, std::vector<int32_t>& ids) {
    pre_tokenizer_.apply(list, work_);
    for (const PieceList::Piece& piece : list.pieces) {
      const std::string_view text = list.view(piece);
      work_.count(text.size());
      if (text.size() >= INT32_MAX) throw InvalidArgument("the normalized text is too long");
      model_.encode(text, allowed_, scratch_, work_, ids);
    }
  }

  const AddedTokens& added_;
  const Normalizer& normalizer_;
  const PreTokenizer& pre_tokenizer_;
  const TokenModel& model_;
  std::span<const size_t> plain_at_;
  AddedTokens::Special special_ =
      AddedTokens::Special::as_token;  // for the segment that is being encoded
  BpeModel::Allowed allowed_ = BpeModel::Allowed::every_token;
  TokenModel::Scratch scratch_;
  WorkMeter work_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "tokenizer.json";
  return from_json(read_text_file(path), path.string(), TokenizerConfig::load(model_dir));
}

Tokenizer Tokenizer::from_json(std::string_view text,
                               std::string_view path,
                               TokenizerConfig config) {
  if (text.size() > kMaxFileBytes) {
    throw FileError("E_TOKENIZER",
                    path,
                    "",
                    fmt::format("{} bytes, at most {} are accepted", text.size(), kMaxFileBytes));
  }
  return Tokenizer(
      std::make_unique<const Impl>(read_tokenizer_file(text, path), path, std::move(config)));
}

Tokenizer Tokenizer::from_file(TokenizerFile file, std::string_view path, TokenizerConfig config) {
  return Tokenizer(std::make_unique<const Impl>(std::move(file), path, std::move(config)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    throw InvalidArgument(fmt::format(
        "a text of {} bytes to tokenize, at most {} are accepted", text.size(), kMaxTextBytes));
  }
  const PostProcessor& around = impl_->post_processor;
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (options.add_special_tokens) ids.assign(around.prefix.begin(), around.prefix.end());
  Encoding encoding(impl_->added, impl_->normalizer, impl_->pre_tokenizer, impl_->model, options);
  if (is_valid_utf8(text)) {
    encoding.encode(text, ids);
  } else {
    encoding.encode(to_valid_utf8(text), ids);
  }
  if (options.add_special_tokens) ids.insert(ids.end(), around.suffix.begin(), around.suffix.end());
  return ids;
}

EncodedPair Tokenizer::encode_pair(std::string_view first,
                                   std::string_view second,
                                   const EncodeOptions& options) const {
  if (!impl_->post_processor.pair) {
    throw InvalidArgument(
        "tokenizer.json: the template \"pair\" of the post-processor is not supported: expected "
        "text A before text B, and token types that change once, between them");
  }
  const PairTemplate& around = *impl_->post_processor.pair;
  EncodeOptions plain = options;
  plain.add_special_tokens = false;
  const std::vector<int32_t> a = encode(first, plain);
  const std::vector<int32_t> b = encode(second, plain);
  EncodedPair pair;
  const auto append = [&](const std::vector<int32_t>& ids) {
    pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
  };
  const bool adds = options.add_special_tokens;
  if (adds) append(around.prefix);
  append(a);
  if (around.second_begin) pair.second_begin = pair.ids.size() + (adds ? *around.second_begin : 0);
  if (adds) append(around.middle);
  append(b);
  if (adds) append(around.suffix);
  return pair;
}

std::vector<size_t> Tokenizer::find_control_tokens(std::string_view text) const {
  std::vector<size_t> found;
  for (const AddedTokens::Stage stage :
       {AddedTokens::Stage::raw_text, AddedTokens::Stage::normalized_text}) {
    for (const TextSegment& segment :
         impl_->added.split(text, stage, AddedTokens::Special::as_token, {})) {
      if (segment.id < 0) continue;
      const AddedToken& token = *impl_->added.find(segment.id);
      if (!token.special) continue;
      // The match may begin with white space that the token has taken. The search ends with the
      // segment: without this limit it would read the whole text once for each token whose text
      // differs.
      const size_t at = text.substr(segment.begin, segment.end - segment.begin).find(token.content);
      if (at != std::string_view::npos) found.push_back(segment.begin + at);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  IncrementalDetokenizer stream(*this, skip_special_tokens);
  std::string text = stream.push(ids);
  text += stream.flush();
  return text;
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return impl_->find(token);
}

std::optional<std::string_view> Tokenizer::id_to_token(int32_t id) const {
  return impl_->token(id);
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->num_ids); }

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->is_special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos_id; }
const TokenizerConfig& Tokenizer::config() const { return impl_->config; }
const Decoder& Tokenizer::decoder() const { return impl_->decoder; }

}  // namespace reprise::tokenizer
