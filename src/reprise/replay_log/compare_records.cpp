#include "reprise/replay_log/compare_records.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::replay_log {
namespace {

using Kind = AnswerDifference::Kind;

bool has_same_digest(uint64_t logged, uint64_t replayed) {
  return logged == 0 || replayed == 0 || logged == replayed;
}

std::string ending(const RequestRecord& record) {
  return fmt::format("{} tokens ({})", record.token_ids.size(), record.finish_reason);
}

}  // namespace

std::optional<AnswerDifference> find_difference(const RequestRecord& logged,
                                                const RequestRecord& replayed) {
  const size_t num_common = std::min(logged.token_ids.size(), replayed.token_ids.size());
  for (size_t i = 0; i < num_common; ++i) {
    if (logged.token_ids[i] != replayed.token_ids[i]) {
      return AnswerDifference{.kind = Kind::token, .position = i};
    }
    if (!has_same_digest(logged.digests[i], replayed.digests[i])) {
      return AnswerDifference{.kind = Kind::logits, .position = i};
    }
  }
  if (logged.token_ids.size() != replayed.token_ids.size()) {
    return AnswerDifference{.kind = Kind::length, .position = num_common};
  }
  if (logged.vector_digest != replayed.vector_digest) return AnswerDifference{.kind = Kind::vector};
  if (logged.finish_reason == "stop" && replayed.finish_reason != "stop") {
    return AnswerDifference{.kind = Kind::finish, .position = num_common};
  }
  return std::nullopt;
}

std::string describe(const AnswerDifference& difference,
                     const RequestRecord& logged,
                     const RequestRecord& replayed) {
  const size_t i = difference.position;
  switch (difference.kind) {
    case Kind::token:
      return fmt::format("token {} of {}: logged {}, replayed {}",
                         i + 1,
                         logged.token_ids.size(),
                         logged.token_ids[i],
                         replayed.token_ids[i]);
    case Kind::logits:
      return fmt::format("token {} of {} is {} in both, but its logits differ\n  digest {}, now {}",
                         i + 1,
                         logged.token_ids.size(),
                         logged.token_ids[i],
                         digest_text(logged.digests[i]),
                         digest_text(replayed.digests[i]));
    case Kind::length:
      return fmt::format("logged {}, replayed {}", ending(logged), ending(replayed));
    case Kind::finish:
      return fmt::format("the same {} tokens end with '{}', logged '{}'",
                         i,
                         replayed.finish_reason,
                         logged.finish_reason);
    case Kind::vector:
      return "its vector differs";
  }
  return {};
}

}  // namespace reprise::replay_log
