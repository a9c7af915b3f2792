#include "reprise/speculative/suffix_drafter.h"

#include <algorithm>
#include <bit>
#include <exception>

namespace reprise::speculative {

SuffixDrafter::SuffixDrafter(const SuffixOptions& options, size_t most_cached_tokens)
    : options_(options), answers_(options.max_cached_requests > 0 ? most_cached_tokens : 1) {}

void SuffixDrafter::propose_all(std::span<DraftRequest> requests) noexcept {
  for (DraftRequest& request : requests) {
    request.num_drafts = 0;
    try {
      propose(request);
    } catch (const std::exception&) {
      // The request's index does not fit into memory, so there are no drafts.
      request.num_drafts = 0;
    }
  }
}

void SuffixDrafter::propose(DraftRequest& request) {
  const SuffixIndex::Proposal own =
      own_index(request).propose(request.token_ids, request.drafts, options_);
  request.num_drafts = own.num_drafts;
  if (!request.cache_salt.empty() || answer_begins_.empty()) return;
  from_answers_.resize(request.drafts.size());
  const SuffixIndex::Proposal others = answers_.propose(request.token_ids, from_answers_, options_);
  if (others.score <= own.score) return;
  std::copy_n(from_answers_.begin(), others.num_drafts, request.drafts.begin());
  request.num_drafts = others.num_drafts;
}

/// Brings the index of the request's tokens up to date and returns it.
SuffixIndex& SuffixDrafter::own_index(const DraftRequest& request) {
  const size_t count = request.token_ids.size();
  auto found = own_.find(request.request_id);
  if (found != own_.end() && found->second.capacity() < count) {
    own_.erase(found);
    found = own_.end();
  }
  if (found == own_.end()) {
    // Reserves room for as many tokens again, so that a long answer builds few indexes.
    const size_t capacity = std::bit_ceil(std::max<size_t>(64, count + count / 2));
    found = own_.emplace(request.request_id, SuffixIndex(capacity)).first;
  }
  SuffixIndex& index = found->second;
  index.append(request.token_ids.subspan(static_cast<size_t>(index.end())));
  return index;
}

void SuffixDrafter::end_request(const EndedRequest& request) noexcept {
  own_.erase(request.request_id);
  if (!request.cache_salt.empty() || options_.max_cached_requests == 0) return;
  try {
    remember(request.output_token_ids);
  } catch (const std::exception&) {
    return;  // counting one more answer does not fit into memory
  }
}

void SuffixDrafter::remember(std::span<const int32_t> answer) {
  const size_t longest = answers_.capacity() - 1;
  if (answer.size() < 2 || longest < 2) return;
  answer = answer.first(std::min(answer.size(), longest));
  answer_begins_.push_back(answers_.end());
  answers_.append(answer);
  answers_.append(SuffixIndex::kSeparator);
  // An answer whose beginning was dropped is dropped as a whole.
  const auto num_most = static_cast<size_t>(options_.max_cached_requests);
  while (answer_begins_.size() > num_most || answer_begins_.front() < answers_.begin()) {
    answer_begins_.pop_front();
  }
  answers_.forget_before(answer_begins_.front());
}

}  // namespace reprise::speculative
