#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "reprise/sampling/sampler.h"

namespace reprise::cudagraph {
class DispatchLedger;
}

namespace reprise::speculative {

/// A step of the main model with its results. The runner defines this struct
/// (runner/followed_step.h); drafters that read only tokens do not need it.
struct FollowedStep;

/// How a draft model chooses drafts for random answers (temperature above 0); vLLM's names. Both
/// methods give exact answers, because a draft becomes a token only if the main model samples it.
enum class DraftSampleMethod : uint8_t {
  greedy,  // the most likely token
  /// A sample, with the request's parameters and the random number with which the main model's
  /// token will be sampled. The more similar the two models are, the more often both samples agree.
  probabilistic,
};

/// A request that wants drafts for the step being scheduled. Borrows from the request for one call.
struct DraftRequest {
  uint64_t request_id = 0;             // no other request of the engine ever has this id
  std::string_view cache_salt;         // requests with different salts must not share cached work
  std::span<const int32_t> token_ids;  // the prompt and the output so far
  /// Room for drafts, right after `token_ids` in memory. The drafter writes from the front.
  std::span<int32_t> drafts;
  /// The sampler's input for the token after `token_ids`, without logits.
  sampling::SamplingInput next;
  int num_drafts = 0;  // the result: how many drafts were written

  /// The sampler's input, without logits, for the token after the first `draft` drafts.
  [[nodiscard]] sampling::SamplingInput sampling_at(size_t draft) const {
    sampling::SamplingInput input = next;
    const std::span<const int32_t> before = next.output_token_ids;
    input.output_token_ids = {before.data(), before.size() + draft};
    const auto num_suppressed = static_cast<size_t>(next.params->min_tokens);
    if (input.output_token_ids.size() >= num_suppressed) input.suppressed_token_ids = {};
    return input;
  }
};

/// A request that will have no more drafts. Borrows from the request for one call.
struct EndedRequest {
  uint64_t request_id = 0;
  std::string_view cache_salt;
  std::span<const int32_t> output_token_ids;
};

/// Proposes draft tokens. A wrong draft costs time and never changes an answer, so a drafter may
/// guess in any way. Belongs to one thread.
class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  /// Sets drafts and num_drafts of each request. Called at most once per step, with the requests in
  /// the order of their rank, so it should not allocate. A request that is missing in one step may
  /// be present in a later one. Does not throw: a drafter that fails proposes nothing.
  virtual void propose_all(std::span<DraftRequest> requests) noexcept = 0;
  /// Called once for each request that ends, whether or not it had drafts.
  virtual void end_request(const EndedRequest& /*request*/) noexcept {}

  /// Whether this drafter needs follow(). Then no step is scheduled before the results of the step
  /// before it, and the host samples all tokens.
  [[nodiscard]] virtual bool follows_steps() const noexcept { return false; }
  /// Receives the results of each step of the main model, if follows_steps().
  virtual void follow(const FollowedStep& /*step*/) noexcept {}
  /// Forgets all data about this drafter's caches, because their memory was given back.
  virtual void forget_all() {}
  /// The decisions of the steps of this drafter's own model. nullptr: the drafter has no model.
  [[nodiscard]] virtual const cudagraph::DispatchLedger* ledger() const noexcept { return nullptr; }
};

/// A drafter that looks at the tokens of one request at a time.
class TokenDrafter : public Drafter {
 public:
  void propose_all(std::span<DraftRequest> requests) noexcept final {
    for (DraftRequest& request : requests) {
      request.num_drafts = propose(request.token_ids, request.drafts);
    }
  }

  /// Writes guesses of the tokens after `token_ids` to the front of `drafts`, and returns their
  /// number.
  [[nodiscard]] virtual int propose(std::span<const int32_t> token_ids,
                                    std::span<int32_t> drafts) = 0;
};

}  // namespace reprise::speculative
