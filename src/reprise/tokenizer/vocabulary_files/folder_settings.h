#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::tokenizer {

/// The contents of the files beside a vocabulary: tokenizer_config.json, special_tokens_map.json,
/// added_tokens.json, and config.json for the tokenizer's class if the first file does not name it.
/// Each of the files may be missing.
struct FolderSettings {
  /// A token with a role ("bos_token"), as an entry of added_tokens without its id.
  struct NamedToken {
    std::string role;
    std::string content;
    Json entry;
  };
  /// The token that a class uses for a role if no file names one.
  struct Role {
    std::string_view role;
    std::string_view content;
  };

  std::filesystem::path folder;
  /// The class of Transformers without "Fast" ("LlamaTokenizer"); empty: no file names one.
  std::string tokenizer_class;
  Json config = Json::object();  // tokenizer_config.json
  std::vector<NamedToken> named;
  /// The entries of added_tokens, by id: "added_tokens_decoder", or else added_tokens.json.
  std::map<uint32_t, Json> added;

  /// \throws FileError E_TOKENIZER, E_TRUNCATED, E_DEPTH
  [[nodiscard]] static FolderSettings load(const std::filesystem::path& folder);

  /// A member of tokenizer_config.json; nothing when it is missing or null.
  /// \throws FileError E_TOKENIZER when it has another type
  [[nodiscard]] std::optional<bool> flag(std::string_view name) const;
  [[nodiscard]] std::optional<size_t> integer(std::string_view name, size_t limit) const;

  /// The text of the token with this role.
  [[nodiscard]] std::optional<std::string> token(std::string_view role) const;
  /// Names the tokens of the roles that no file names.
  void set_defaults(std::span<const Role> roles);

  /// Whether the class is one of `names`, which are written without "Tokenizer".
  [[nodiscard]] bool is_class(std::initializer_list<std::string_view> names) const;
  /// The text of the piece with this id; an added token may replace it.
  [[nodiscard]] std::string_view text_of(uint32_t id, std::string_view piece) const;
  [[nodiscard]] std::string path_of(std::string_view file) const;
};

/// An entry of added_tokens, as in tokenizer.json, without its id.
[[nodiscard]] Json added_token(std::string_view content, bool special);

/// The array added_tokens of a tokenizer.json: first the entries of `settings`, then those of the
/// vocabulary file's `tokens` (by id) that are missing there, then the named tokens for which
/// `find` returns an id. Named tokens are special. A named token without an id is not a token of
/// the model: it is left out.
[[nodiscard]] Json added_tokens_json(
    const FolderSettings& settings,
    const std::map<uint32_t, Json>& tokens,
    const std::function<std::optional<int32_t>(std::string_view)>& find);

}  // namespace reprise::tokenizer
