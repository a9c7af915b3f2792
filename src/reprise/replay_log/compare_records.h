#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "reprise/replay_log/request_record.h"

namespace reprise::replay_log {

/// The first place at which a replayed answer differs from the logged answer.
struct AnswerDifference {
  enum class Kind : uint8_t {
    token,   // another token
    logits,  // the same token, chosen from other logits
    length,  // one answer ends here, and the other continues
    finish,  // the same tokens, but another reason to end
    vector,  // of a pooling model
  };
  Kind kind = Kind::token;
  size_t position = 0;  // of the token in the answer

  friend bool operator==(const AnswerDifference&, const AnswerDifference&) = default;
};

/// nullopt: the answers are the same; bit by bit, as far as both have digests. A logged answer that
/// was aborted or failed is compared only in its tokens, because its replay ends after the last of
/// them.
[[nodiscard]] std::optional<AnswerDifference> find_difference(const RequestRecord& logged,
                                                              const RequestRecord& replayed);

/// "token 17 of 40: logged 523, replayed 411".
[[nodiscard]] std::string describe(const AnswerDifference& difference,
                                   const RequestRecord& logged,
                                   const RequestRecord& replayed);

}  // namespace reprise::replay_log
