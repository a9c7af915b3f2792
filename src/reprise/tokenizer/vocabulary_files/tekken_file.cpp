#include "reprise/tokenizer/vocabulary_files/tekken_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/json_cursor.h"
#include "reprise/tokenizer/base64.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/vocabulary_files/json_components.h"
#include "reprise/tokenizer/vocabulary_files/ranked_bytes.h"

namespace reprise::tokenizer {
namespace {

using Role = FolderSettings::Role;

constexpr size_t kMaxSpecialTokens = 100'000;
// The special tokens of files without "special_tokens". Source:
// Tekkenizer.DEPRECATED_SPECIAL_TOKENS of the package mistral-common.
constexpr std::array<std::string_view, 20> kFirstSpecialTokens = {"<unk>",
                                                                  "<s>",
                                                                  "</s>",
                                                                  "[INST]",
                                                                  "[/INST]",
                                                                  "[AVAILABLE_TOOLS]",
                                                                  "[/AVAILABLE_TOOLS]",
                                                                  "[TOOL_RESULTS]",
                                                                  "[/TOOL_RESULTS]",
                                                                  "[TOOL_CALLS]",
                                                                  "[IMG]",
                                                                  "<pad>",
                                                                  "[IMG_BREAK]",
                                                                  "[IMG_END]",
                                                                  "[PREFIX]",
                                                                  "[MIDDLE]",
                                                                  "[SUFFIX]",
                                                                  "[SYSTEM_PROMPT]",
                                                                  "[/SYSTEM_PROMPT]",
                                                                  "[TOOL_CONTENT]"};

class TekkenReader {
 public:
  TekkenReader(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  void read() {
    JsonCursor cursor(text_, path_, {"E_TOKENIZER"});
    cursor.for_each_member([&](std::string_view name) {
      if (name == "config") {
        read_config(cursor.skip_value());
      } else if (name == "special_tokens" && cursor.peek() == '[') {
        read_special_tokens(cursor.skip_value());
      } else if (name == "vocab") {
        cursor.for_each_element([&] { read_token(cursor); });
      } else {
        static_cast<void>(cursor.skip_value());
      }
    });
    cursor.expect_end();
    check();
  }

  std::string pattern;
  std::vector<std::string> special_tokens;  // by id
  RankedBytes ranked;

 private:
  [[noreturn]] void fail(std::string_view pointer, std::string_view message) const {
    throw FileError("E_TOKENIZER", path_, pointer, message);
  }

  void read_config(std::string_view text) {
    const Json json = parse_json_file(text, path_);
    const Component config(json, path_, "/config");
    pattern = config.at("pattern").text();
    if (config.has("default_num_special_tokens")) {
      num_special_tokens_ = config.at("default_num_special_tokens").integer(kMaxSpecialTokens);
    }
    if (config.has("default_vocab_size")) {
      vocabulary_size_ = config.at("default_vocab_size").integer(Vocabulary::kMaxId - 1);
    }
  }

  void read_special_tokens(std::string_view text) {
    const Json json = parse_json_file(text, path_);
    const std::vector<Component> items = Component(json, path_, "/special_tokens").elements();
    if (items.size() > kMaxSpecialTokens) fail("/special_tokens", "too many tokens");
    special_tokens.resize(items.size());
    for (const Component& item : items) {
      std::string& token = special_tokens[item.at("rank").integer(items.size() - 1)];
      if (!token.empty()) item.at("rank").fail("the rank is repeated");
      token = item.at("token_str").text();
      if (token.empty()) item.at("token_str").fail("the token is empty");
    }
    has_special_tokens_ = true;
  }

  void read_token(JsonCursor& cursor) {
    const size_t index = ranked.tokens.size();
    const std::string pointer = fmt::format("/vocab/{}", index);
    if (index == RankedBytes::kMaxTokens) fail(pointer, "the file has too many tokens");
    std::optional<uint64_t> rank;
    std::optional<std::string> bytes;
    std::string storage;
    cursor.for_each_member([&](std::string_view name) {
      if (name == "rank") {
        rank = cursor.read_unsigned(Vocabulary::kMaxId - 1);
      } else if (name == "token_bytes") {
        try {
          bytes = decode_base64(cursor.read_string(storage));
        } catch (const FileError&) {
          throw;
        } catch (const InvalidArgument& error) {
          fail(pointer + "/token_bytes", error.what());
        }
      } else {
        static_cast<void>(cursor.skip_value());
      }
    });
    if (!rank || !bytes) fail(pointer, "expected the members rank and token_bytes");
    if (*rank != index) fail(pointer + "/rank", "the ranks must be 0, 1, 2, ...");
    if (bytes->empty() || bytes->size() > RankedBytes::kMaxTokenBytes) {
      fail(pointer + "/token_bytes",
           fmt::format("{} bytes, expected 1 to {}", bytes->size(), RankedBytes::kMaxTokenBytes));
    }
    ranked.tokens.push_back({.bytes = std::move(*bytes), .rank = static_cast<uint32_t>(*rank)});
  }

  // The first ids are special tokens; generated names fill the ids that no token has.
  void check() {
    if (pattern.empty()) fail("/config/pattern", "is required: it says how text is cut");
    if (!has_special_tokens_) {
      special_tokens.assign(kFirstSpecialTokens.begin(), kFirstSpecialTokens.end());
    }
    const size_t count = num_special_tokens_.value_or(special_tokens.size());
    if (count < special_tokens.size()) {
      fail("/config/default_num_special_tokens",
           fmt::format("is {}, but there are {} special tokens", count, special_tokens.size()));
    }
    for (size_t id = special_tokens.size(); id < count; ++id) {
      special_tokens.push_back(fmt::format("<SPECIAL_{}>", id));
    }
    ranked.first_id = static_cast<uint32_t>(count);
    if (vocabulary_size_) {
      if (*vocabulary_size_ < count || *vocabulary_size_ - count > ranked.tokens.size()) {
        fail("/config/default_vocab_size",
             fmt::format("is {}, but there are {} special tokens and {} others",
                         *vocabulary_size_,
                         count,
                         ranked.tokens.size()));
      }
      ranked.tokens.resize(*vocabulary_size_ - count);
    }
  }

  std::string_view text_;
  std::string_view path_;
  bool has_special_tokens_ = false;
  std::optional<size_t> num_special_tokens_;
  // Including the special tokens; further tokens are unused.
  std::optional<size_t> vocabulary_size_;
};

}  // namespace

TokenizerFile tekken_tokenizer(FolderSettings& settings,
                               std::string_view text,
                               std::string_view path) {
  settings.set_defaults(std::array<Role, 4>{{{"bos_token", "<s>"},
                                             {"eos_token", "</s>"},
                                             {"unk_token", "<unk>"},
                                             {"pad_token", "<pad>"}}});
  TekkenReader reader(text, path);
  reader.read();
  TokenizerFile file;
  set_ranked_bytes(reader.ranked, reader.pattern, path, file);
  std::map<uint32_t, Json> tokens;
  for (size_t id = 0; id < reader.special_tokens.size(); ++id) {
    tokens.emplace(static_cast<uint32_t>(id), added_token(reader.special_tokens[id], true));
  }
  file.added_tokens = added_tokens_json(
      settings, tokens, [&](std::string_view token) { return file.vocabulary.find(token); });
  const auto piece = [&](std::string_view role, std::string_view flag, bool by_default) {
    return settings.flag(flag).value_or(by_default)
               ? json_components::token_piece(role, settings, file)
               : json_components::TemplatePiece{};
  };
  file.post_processor = json_components::bos_eos_template(
      piece("bos_token", "add_bos_token", true), piece("eos_token", "add_eos_token", false));
  return file;
}

}  // namespace reprise::tokenizer
