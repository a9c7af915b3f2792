#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "reprise/speculative/drafter.h"
#include "reprise/speculative/suffix_index.h"

namespace reprise::speculative {

/// Proposes what followed the same last tokens most often: in the request's own prompt and answer,
/// or in the answers of earlier requests. The source with the higher score wins.
///
/// An answer becomes known to other requests when its request ends. At most max_cached_requests
/// answers, and kMostCachedTokens tokens, are kept; the oldest are dropped first. Requests with a
/// cache_salt neither read nor add to them: otherwise the speed of an answer would tell what others
/// have asked.
class SuffixDrafter final : public Drafter {
 public:
  /// The largest number of tokens of earlier answers; 16 bytes each.
  static constexpr size_t kMostCachedTokens = size_t{1} << 20;

  explicit SuffixDrafter(const SuffixOptions& options,
                         size_t most_cached_tokens = kMostCachedTokens);

  void propose_all(std::span<DraftRequest> requests) noexcept override;
  void end_request(const EndedRequest& request) noexcept override;

  [[nodiscard]] size_t num_cached_requests() const noexcept { return answer_begins_.size(); }
  /// Requests that have not ended and had drafts.
  [[nodiscard]] size_t num_requests() const noexcept { return own_.size(); }

 private:
  void propose(DraftRequest& request);
  [[nodiscard]] SuffixIndex& own_index(const DraftRequest& request);
  void remember(std::span<const int32_t> answer);

  SuffixOptions options_;
  SuffixIndex answers_;
  std::deque<uint64_t> answer_begins_;  // positions in answers_
  std::unordered_map<uint64_t, SuffixIndex> own_;
  std::vector<int32_t> from_answers_;
};

}  // namespace reprise::speculative
