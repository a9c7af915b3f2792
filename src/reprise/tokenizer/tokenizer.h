#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/work_limit.h"
#include "reprise/tokenizer/decoder.h"
#include "reprise/tokenizer/tokenizer_config.h"

namespace reprise::tokenizer {

struct TokenizerFile;

struct EncodeOptions {
  /// Whether to add the tokens that the file's post-processor puts around a prompt (BOS, EOS).
  bool add_special_tokens = true;
  /// When false, text that spells a control token ("<|im_end|>") is plain text: encode() then gives
  /// no id that the file marks as special, except the unknown token and those that
  /// add_special_tokens adds.
  bool parse_special = true;
  /// Ascending byte offsets at which no control token begins although the text spells one. They
  /// mark users' text inside a prompt; control tokens at other offsets are read as such.
  std::span<const size_t> plain_at = {};
  const WorkLimit* work = nullptr;  // borrowed for the call; null: no limit
};

/// The ids of two texts that a model compares.
struct EncodedPair {
  std::vector<int32_t> ids;
  /// The index of the first id of the second text; nothing: both texts have the same type.
  std::optional<size_t> second_begin;
};

/// Turns text into token ids and back, with the results of the `tokenizers` package for the same
/// tokenizer.json.
///
/// It supports byte-level and SentencePiece-style BPE, WordPiece and Unigram. When loading, it
/// refuses every other part of the file with a FileError that names the part. Immutable after
/// loading: any number of threads may share one object. The object may be moved, but only after all
/// its IncrementalDetokenizers are destroyed.
class Tokenizer {
 public:
  /// Reads tokenizer.json of `model_dir` and the files beside it (see TokenizerConfig).
  /// \throws FileError E_TOKENIZER, E_TRUNCATED, E_DEPTH, E_REGEX
  static Tokenizer load(const std::filesystem::path& model_dir);
  /// Makes a tokenizer from the text of tokenizer.json; `path` names the file in errors.
  static Tokenizer from_json(std::string_view text,
                             std::string_view path = "tokenizer.json",
                             TokenizerConfig config = {});
  /// Makes a tokenizer from tables and components that were read from another kind of file.
  static Tokenizer from_file(TokenizerFile file, std::string_view path, TokenizerConfig config);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids of `text`, in O(n log n) for every text. Bytes that are not UTF-8 count as U+FFFD.
  /// \throws InvalidArgument when `text` is longer than kMaxTextBytes
  /// \throws FileError E_REGEX when a pattern of the file backtracks too much on this text
  /// \throws Abandoned from the work limit
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                            const EncodeOptions& options = {}) const;

  /// Ids of two texts, with the tokens that the file's post-processor puts around and between them
  /// (options.add_special_tokens). `plain_at` must be empty. \throws as encode; InvalidArgument for
  /// a file whose template for pairs is not supported
  [[nodiscard]] EncodedPair encode_pair(std::string_view first,
                                        std::string_view second,
                                        const EncodeOptions& options = {}) const;

  /// The ascending offsets at which `text` spells control tokens.
  [[nodiscard]] std::vector<size_t> find_control_tokens(std::string_view text) const;

  /// Text of `ids`; an id without a token adds nothing. Always well-formed UTF-8. Special tokens
  /// are skipped by id, also those whose text normalization changes (`tokenizers` 0.23 keeps
  /// these).
  [[nodiscard]] std::string decode(std::span<const int32_t> ids,
                                   bool skip_special_tokens = true) const;

  [[nodiscard]] std::optional<int32_t> token_to_id(std::string_view token) const;
  /// The raw piece ("Ġthe", "<0x0A>"), not its text. Nothing when no token has this id.
  [[nodiscard]] std::optional<std::string_view> id_to_token(int32_t id) const;
  /// One more than the highest id. A model's logits may have more rows.
  [[nodiscard]] int32_t vocab_size() const;
  [[nodiscard]] bool is_special(int32_t id) const;

  /// The ids of the tokens that the config names; nothing if it names none, or one that is unknown.
  [[nodiscard]] std::optional<int32_t> bos_id() const;
  [[nodiscard]] std::optional<int32_t> eos_id() const;
  [[nodiscard]] const TokenizerConfig& config() const;

  /// For IncrementalDetokenizer.
  [[nodiscard]] const Decoder& decoder() const;

  // Normalization can make a text eleven times as long; a piece then still has less than 2 GiB.
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace reprise::tokenizer
