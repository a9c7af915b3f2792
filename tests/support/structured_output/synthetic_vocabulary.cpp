#include "tests/support/structured_output/synthetic_vocabulary.h"

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/text/utf8.h"

namespace reprise::structured_output {
namespace {

constexpr size_t kMaxTokenBytes = 16;
constexpr int kNumBytes = 256;

/// A random character with the frequencies of real texts: mostly letters of Latin script.
uint32_t random_character(std::mt19937_64& random) {
  constexpr std::string_view kMarks = "{}[]\":, \n.-_/()0123456789";
  constexpr std::array<std::pair<uint32_t, uint32_t>, 6> kScripts{{{0xC0, 0x17F},
                                                                   {0x400, 0x45F},
                                                                   {0x3041, 0x30FF},
                                                                   {0x4E00, 0x9FFF},
                                                                   {0xAC00, 0xD7A3},
                                                                   {0x1F300, 0x1F64F}}};
  const uint64_t dice = random() % 100;
  if (dice < 60) return static_cast<uint32_t>((dice < 50 ? 'a' : 'A') + random() % 26);
  if (dice < 80) return static_cast<unsigned char>(kMarks[random() % kMarks.size()]);
  const auto& [first, last] = kScripts[random() % kScripts.size()];
  return first + static_cast<uint32_t>(random() % (last - first + 1));
}

}  // namespace

VocabularyBytes synthetic_vocabulary(int32_t num_tokens, uint64_t seed) {
  REPRISE_ASSERT(
      num_tokens > 2 * kNumBytes, "a vocabulary of {} tokens, expected more", num_tokens);
  std::mt19937_64 random(seed);
  VocabularyBytes vocabulary;
  std::vector<std::string>& tokens = vocabulary.tokens;
  for (int byte = 0; byte < kNumBytes; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::unordered_set<std::string> known(tokens.begin(), tokens.end());
  while (tokens.size() + 1 < static_cast<size_t>(num_tokens)) {
    std::string token;
    if (random() % 2 == 0 || tokens.size() == kNumBytes) {
      append_utf8(random_character(random), token);
      append_utf8(random_character(random), token);
    } else {
      // Prefers early tokens, which are part of most merges in real vocabularies.
      token = tokens[random() % (random() % tokens.size() + 1)];
    }
    const uint64_t dice = random() % 16;
    if (dice < 8) append_utf8(random_character(random), token);
    if (dice >= 8 && dice < 15) token += tokens[random() % (random() % tokens.size() + 1)];
    if (token.size() > kMaxTokenBytes) token.resize(kMaxTokenBytes);
    if (known.insert(token).second) tokens.push_back(std::move(token));
  }
  tokens.emplace_back();
  vocabulary.end_token_ids.push_back(num_tokens - 1);
  return vocabulary;
}

}  // namespace reprise::structured_output
