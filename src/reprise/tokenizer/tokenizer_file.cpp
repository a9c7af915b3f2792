#include "reprise/tokenizer/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/text/json_cursor.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/token_table.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 3> kSupportedModels = {"BPE", "WordPiece", "Unigram"};

struct Member {
  std::string name;
  size_t begin = 0;  // offset of the value in the document
  std::string_view value;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  TokenizerFile read() {
    JsonCursor cursor(text_, path_, {"E_TOKENIZER"});
    const std::vector<Member> members = read_members(cursor);
    cursor.expect_end();
    TokenizerFile file;
    bool has_model = false;
    for (const Member& member : members) {
      if (member.name == "model") {
        read_model(member, file);
        has_model = true;
      }
      if (member.name == "added_tokens") file.added_tokens = parse(member, "/added_tokens");
      if (member.name == "normalizer") file.normalizer = parse(member, "/normalizer");
      if (member.name == "pre_tokenizer") file.pre_tokenizer = parse(member, "/pre_tokenizer");
      if (member.name == "post_processor") file.post_processor = parse(member, "/post_processor");
      if (member.name == "decoder") file.decoder = parse(member, "/decoder");
    }
    if (!has_model) fail("", "member 'model' is missing");
    return file;
  }

 private:
  [[noreturn]] void fail(std::string_view pointer, std::string_view message) const {
    throw FileError("E_TOKENIZER", path_, pointer, message);
  }

  /// Cuts the object at `cursor` into its members.
  std::vector<Member> read_members(JsonCursor& cursor) const {
    std::vector<Member> members;
    cursor.for_each_member([&](std::string_view name) {
      const bool is_repeated =
          std::any_of(members.begin(), members.end(), [&](const Member& member) {
            return member.name == name;
          });
      if (is_repeated || members.size() > 64)
        cursor.fail(fmt::format("repeated member '{}'", name));
      Member member{std::string(name), 0, {}};
      static_cast<void>(cursor.peek());
      member.begin = cursor.position();
      member.value = cursor.skip_value();
      members.push_back(std::move(member));
    });
    return members;
  }

  Json parse(const Member& member, std::string_view pointer) const {
    try {
      return parse_json(member.value, fmt::format("{} at byte {}", pointer, member.begin));
    } catch (const InvalidArgument& error) {
      throw FileError("E_TOKENIZER", path_, pointer, error.what());
    }
  }

  void read_model(const Member& model, TokenizerFile& file) const {
    JsonCursor cursor(text_, path_, {"E_TOKENIZER"}, model.begin);
    if (cursor.peek() != '{') fail("/model", "expected an object");
    const Member* vocab = nullptr;
    const Member* merges = nullptr;
    Json options = Json::object();
    const std::vector<Member> members = read_members(cursor);
    for (const Member& member : members) {
      if (member.name == "vocab") {
        vocab = &member;
      } else if (member.name == "merges") {
        merges = &member;
      } else {
        options[member.name] = parse(member, fmt::format("/model/{}", member.name));
      }
    }
    const Component component(options, path_, "/model");
    if (vocab == nullptr) fail("/model", "member 'vocab' is missing");
    const std::string type = read_type(component, vocab->value);
    if (type == "Unigram") {
      read_unigram(*vocab, component, file);
      return;
    }
    if (type == "WordPiece") {
      read_vocabulary(*vocab, file.vocabulary);
      file.word_piece = read_word_piece(component, file.vocabulary);
      return;
    }
    if (merges == nullptr) fail("/model", "member 'merges' is missing");
    read_vocabulary(*vocab, file.vocabulary);
    read_merges(*merges, file);
    read_options(component, file);
  }

  static std::string read_type(const Component& component, std::string_view vocab) {
    // Old files have no type. In old files, only Unigram has a list as its vocabulary; all others
    // hold BPE.
    if (!component.has("type")) return vocab.starts_with('[') ? "Unigram" : "BPE";
    std::string type = component.type();
    if (std::find(kSupportedModels.begin(), kSupportedModels.end(), type) ==
        kSupportedModels.end()) {
      component.at("type").fail_unknown("tokenizer model", type, kSupportedModels);
    }
    return type;
  }

  static WordPieceOptions read_word_piece(const Component& component,
                                          const Vocabulary& vocabulary) {
    WordPieceOptions options;
    if (component.has("continuing_subword_prefix")) {
      options.continuing_prefix = component.at("continuing_subword_prefix").text();
    }
    if (component.has("max_input_chars_per_word")) {
      options.max_characters =
          component.at("max_input_chars_per_word").integer(WordPieceModel::kMaxCharacters);
    }
    const auto unknown = vocabulary.find(component.at("unk_token").text());
    if (!unknown) component.at("unk_token").fail("is not in the vocabulary");
    options.unknown_id = *unknown;
    return options;
  }

  static void read_options(const Component& component, TokenizerFile& file) {
    for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (component.has(affix) && !component.at(affix).text().empty()) {
        component.at(affix).fail("word affixes are not supported; expected null or \"\"");
      }
    }
    if (component.has("dropout") && component.at("dropout").json() != 0) {
      component.at("dropout").fail("dropout makes encoding random; expected null or 0");
    }
    file.bpe.fuse_unknown = component.boolean_or("fuse_unk", false);
    file.bpe.byte_fallback = component.boolean_or("byte_fallback", false);
    file.bpe.ignore_merges = component.boolean_or("ignore_merges", false);
    if (!component.has("unk_token")) return;
    file.bpe.unknown_id = file.vocabulary.find(component.at("unk_token").text());
    if (!file.bpe.unknown_id) component.at("unk_token").fail("is not in the vocabulary");
  }

  void read_vocabulary(const Member& member, Vocabulary& vocabulary) const {
    JsonCursor cursor(text_, path_, {"E_TOKENIZER"}, member.begin);
    // In published files an entry has 12 to 20 bytes.
    vocabulary.reserve(member.value.size() / 16, member.value.size() / 2);
    cursor.for_each_member([&](std::string_view token) {
      // `token` may be a view of the cursor's storage; reading a number does not change that
      // storage.
      const auto id = static_cast<uint32_t>(cursor.read_unsigned(Vocabulary::kMaxId - 1));
      add_token(token, id, {path_, "/model/vocab"}, vocabulary);
    });
    if (vocabulary.size() == 0) fail("/model/vocab", "the vocabulary is empty");
  }

  // The vocabulary is a list of tokens and their scores; a token's id is its place in the list.
  void read_unigram(const Member& member, const Component& component, TokenizerFile& file) const {
    JsonCursor cursor(text_, path_, {"E_TOKENIZER"}, member.begin);
    if (cursor.peek() != '[') fail("/model/vocab", "expected a list of tokens and scores");
    file.vocabulary.reserve(member.value.size() / 24, member.value.size() / 2);
    UnigramOptions& options = file.unigram.emplace();
    std::string storage;
    cursor.for_each_element([&] {
      const auto id = static_cast<uint32_t>(options.scores.size());
      size_t count = 0;
      cursor.for_each_element([&] {
        if (count == 0) {
          const std::string_view token = cursor.read_string(storage);
          if (token.size() > UnigramModel::kMaxTokenBytes) {
            fail(fmt::format("/model/vocab/{}", id),
                 fmt::format("a token of {} bytes, at most {} are accepted",
                             token.size(),
                             UnigramModel::kMaxTokenBytes));
          }
          add_token(token, id, {path_, "/model/vocab"}, file.vocabulary);
        } else if (count == 1) {
          options.scores.push_back(read_score(cursor.skip_value(), id));
        } else {
          fail_entry(id);
        }
        ++count;
      });
      if (count != 2) fail_entry(id);
    });
    if (options.scores.empty()) fail("/model/vocab", "the vocabulary is empty");
    if (!component.has("unk_id")) component.fail("member 'unk_id' is missing");
    options.unknown_id =
        static_cast<int32_t>(component.at("unk_id").integer(options.scores.size() - 1));
    options.byte_fallback = component.boolean_or("byte_fallback", false);
  }

  [[noreturn]] void fail_entry(uint32_t id) const {
    fail(fmt::format("/model/vocab/{}", id), "expected a token and its score");
  }

  double read_score(std::string_view text, uint32_t id) const {
    const Json score = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!score.is_number() || !std::isfinite(score.get<double>())) {
      fail(fmt::format("/model/vocab/{}/1", id), "expected a finite number");
    }
    return score.get<double>();
  }

  void read_merges(const Member& member, TokenizerFile& file) const {
    JsonCursor cursor(text_, path_, {"E_TOKENIZER"}, member.begin);
    file.merges.reserve(std::min(member.value.size() / 8, file.vocabulary.size()));
    uint32_t rank = 0;
    std::string left_storage;
    std::string right_storage;
    cursor.for_each_element([&] {
      if (cursor.peek() == '"') {
        const std::string_view line = cursor.read_string(left_storage);
        if (line.starts_with("#version")) return;
        const size_t space = line.find(' ');
        if (space == std::string_view::npos ||
            line.find(' ', space + 1) != std::string_view::npos) {
          fail(fmt::format("/model/merges/{}", rank),
               "expected two tokens with one space between them");
        }
        add_merge(
            line.substr(0, space), line.substr(space + 1), rank++, {path_, "/model/merges"}, file);
        return;
      }
      std::array<std::string_view, 2> pair;
      size_t count = 0;
      cursor.for_each_element([&] {
        if (count == 2) fail(fmt::format("/model/merges/{}", rank), "expected two tokens");
        pair[count] = cursor.read_string(count == 0 ? left_storage : right_storage);
        ++count;
      });
      if (count != 2) fail(fmt::format("/model/merges/{}", rank), "expected two tokens");
      add_merge(pair[0], pair[1], rank++, {path_, "/model/merges"}, file);
    });
  }

  std::string_view text_;
  std::string_view path_;
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text, std::string_view path) {
  return Reader(text, path).read();
}

}  // namespace reprise::tokenizer
