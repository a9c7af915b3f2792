#include "reprise/weights/gguf/pre_tokenizers.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "reprise/weights/gguf/vocabulary.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kDefaultName = "default";

// The expressions come from the models' tokenizer.json; src/llama-vocab.cpp of
// https://github.com/ggml-org/llama.cpp shows which name means which.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoderPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Chinese, Japanese and Korean characters, as in DeepSeek's tokenizers.
constexpr std::string_view kDeepSeekV3Signs = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kDeepSeekSigns = "[一-龥ࠀ-一가-\xED\x9F\xBF]+";
// Letters of several alphabets that have upper and lower case, as listed in the first of these
// tokenizers.
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-"
    "\u0293\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386"
    "\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-"
    "\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD"
    "\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-"
    "\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D"
    "\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4"
    "\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3"
    "\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102"
    "\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-"
    "\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E"
    "\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2"
    "\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787"
    "\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-"
    "\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-"
    "\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-"
    "\U0001E943]+";
constexpr std::string_view kDeepSeekPunctuation =
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+";
constexpr std::string_view kDeepSeekV3Pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr auto kPreTokenizers = std::to_array<PreTokenizer>({
    {.name = "llama-bpe", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "llama3", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "llama-v3", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "falcon3", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "falcon-h1", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "lfm2", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "pixtral", .patterns = {kLlama3Pattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "dbrx", .patterns = {kLlama3Pattern}},
    {.name = "smaug-bpe", .patterns = {kLlama3Pattern}},
    {.name = "glm4", .patterns = {kLlama3Pattern}, .ignores_merges = true},
    {.name = "chatglm-bpe", .patterns = {kLlama3Pattern}},
    {.name = "qwen2", .patterns = {kQwen2Pattern}, .composes = true},
    {.name = "deepseek-r1-qwen", .patterns = {kQwen2Pattern}, .composes = true},
    {.name = "hunyuan", .patterns = {kQwen2Pattern}},
    {.name = "solar-open", .patterns = {kQwen2Pattern}},
    {.name = "stablelm2", .patterns = {kQwen2Pattern}},
    {.name = "qwen35", .patterns = {kQwen35Pattern}, .composes = true},
    {.name = "seed-coder", .patterns = {kSeedCoderPattern}},
    {.name = "gpt-4o", .patterns = {kGpt4oPattern}},
    {.name = "llama4", .patterns = {kGpt4oPattern}},
    {.name = "minimax-m2", .patterns = {kGpt4oPattern}},
    {.name = "tekken", .patterns = {kTekkenPattern}, .ignores_merges = true, .adds_bos = true},
    {.name = "deepseek-coder",
     .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepSeekSigns, "\\p{N}"}},
    {.name = "deepseek-llm",
     .patterns =
         {"[\\r\\n]", kDeepSeekLetters, kDeepSeekPunctuation, "\\s+$", kDeepSeekSigns, "\\p{N}+"}},
    {.name = "deepseek-v3", .patterns = {"\\p{N}{1,3}", kDeepSeekV3Signs, kDeepSeekV3Pattern}},
    {.name = "hunyuan-dense", .patterns = {"\\p{N}{1,3}", kDeepSeekV3Signs, kDeepSeekV3Pattern}},
    {.name = "falcon", .splits_punctuation = true, .groups_digits = true},
    {.name = "gpt-2"},
    {.name = "exaone4"},
    {.name = "mpt", .composes = true},
    {.name = "olmo", .composes = true},
    {.name = "smollm", .splits_digits = true},
    {.name = "refact", .splits_digits = true},
    {.name = "starcoder", .splits_digits = true},
    {.name = "command-r", .splits_digits = true, .composes = true},
    // llama.cpp's own choice: punctuation, then GPT-2's pieces, then numbers in groups of three
    // digits.
    {.name = kDefaultName,
     .patterns = {R"([\p{P}\$\+<=>\^~\|]+)",
                  R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
                  "\\p{N}+",
                  "[0-9][0-9][0-9]"}},
});

}  // namespace

const PreTokenizer& find_pre_tokenizer(const Metadata& metadata) {
  const std::string* given = metadata.string(kPreKey);
  const std::string_view name = given == nullptr ? kDefaultName : *given;
  std::string supported;
  for (const PreTokenizer& known : kPreTokenizers) {
    if (known.name == name) return known;
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", known.name);
  }
  fail_tokenizer(
      metadata,
      kPreKey,
      fmt::format("pre-tokenizer '{}' is not supported; supported: {}", visible(name), supported));
}

bool has_default_pre_tokenizer(const Metadata& metadata) {
  const std::string* name = metadata.string(kPreKey);
  return name == nullptr || *name == kDefaultName;
}

}  // namespace reprise::weights::gguf
