#include "reprise/tokenizer/vocabulary_files/tokenizer_folder.h"

#include <fmt/format.h>

#include <array>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/byte_level_files.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"
#include "reprise/tokenizer/vocabulary_files/ranked_bytes.h"
#include "reprise/tokenizer/vocabulary_files/sentencepiece_file.h"
#include "reprise/tokenizer/vocabulary_files/sentencepiece_tokenizer.h"
#include "reprise/tokenizer/vocabulary_files/tekken_file.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 9> kVocabularyFiles = {"tokenizer.json",
                                                              "tekken.json",
                                                              "tokenizer.model",
                                                              "sentencepiece.bpe.model",
                                                              "spiece.model",
                                                              "tiktoken.model",
                                                              "qwen.tiktoken",
                                                              "vocab.json",
                                                              "vocab.txt"};

constexpr std::string_view kHowToConvert =
    "transformers.AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) writes a tokenizer.json, "
    "and --tokenizer DIR uses the tokenizer of another folder";

bool has(const std::filesystem::path& folder, std::string_view name) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder / name, error);
}

[[noreturn]] void fail_without_vocabulary(const std::filesystem::path& folder) {
  std::string names;
  for (const std::string_view name : kVocabularyFiles) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  throw FileError(
      "E_TOKENIZER",
      (folder / "tokenizer.json").string(),
      "",
      fmt::format(
          "no such file, and the folder has no other vocabulary ({}); {}", names, kHowToConvert));
}

TokenizerFile read_vocabulary_file(std::string_view name, FolderSettings& settings) {
  const std::string path = settings.path_of(name);
  if (name == "vocab.txt") return word_piece_tokenizer(settings);
  if (name == "vocab.json") {
    if (has(settings.folder, "merges.txt")) return byte_level_tokenizer(settings);
    throw FileError("E_TOKENIZER",
                    settings.path_of("merges.txt"),
                    "",
                    "no such file; vocab.json has the tokens, but not how they merge");
  }
  const std::string bytes = read_text_file(path);
  if (name == "tekken.json") return tekken_tokenizer(settings, bytes, path);
  if (name == "tiktoken.model" || name.ends_with(".tiktoken") || is_tiktoken(bytes)) {
    return tiktoken_tokenizer(settings, bytes, path);
  }
  return sentencepiece_tokenizer(SentencePieceFile::read(bytes, path), settings, path);
}

// The sentence of an error's message, without the place before it and the code after it.
std::string sentence_of(const FileError& error) {
  const size_t field_bytes = error.field().empty() ? 0 : error.field().size() + 2;
  const std::string text = error.what();
  const size_t begin = error.path().size() + 2 + field_bytes;
  return text.substr(begin, text.size() - begin - error.code().size() - 3);
}

void name_tokens(const FolderSettings& settings, TokenizerConfig& config) {
  const auto set = [&](std::string_view role, std::optional<std::string>& token) {
    if (!token) token = settings.token(role);
  };
  set("bos_token", config.bos_token);
  set("eos_token", config.eos_token);
  set("pad_token", config.pad_token);
  set("unk_token", config.unk_token);
}

}  // namespace

std::vector<std::string> vocabulary_files(const std::filesystem::path& folder) {
  for (const std::string_view name : kVocabularyFiles) {
    if (!has(folder, name)) continue;
    std::vector<std::string> files = {std::string(name)};
    if (name == "vocab.json") files.emplace_back("merges.txt");
    return files;
  }
  return {};
}

Tokenizer load_tokenizer_folder(const std::filesystem::path& folder) {
  const std::vector<std::string> files = vocabulary_files(folder);
  if (files.empty()) fail_without_vocabulary(folder);
  const std::string& name = files.front();
  if (name == "tokenizer.json") return Tokenizer::load(folder);
  const std::string path = (folder / name).string();
  try {
    FolderSettings settings = FolderSettings::load(folder);
    TokenizerFile file = read_vocabulary_file(name, settings);
    TokenizerConfig config = TokenizerConfig::load(folder);
    name_tokens(settings, config);
    return Tokenizer::from_file(std::move(file), path, std::move(config));
  } catch (const FileError& error) {
    throw FileError(error.code(),
                    error.path(),
                    error.field(),
                    fmt::format("{}; {}", sentence_of(error), kHowToConvert));
  }
}

}  // namespace reprise::tokenizer
