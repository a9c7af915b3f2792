#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/scheduler/request.h"
#include "reprise/scheduler/scheduler_config.h"
#include "reprise/speculative/drafter.h"
#include "reprise/speculative/speculation_stats.h"

namespace reprise::scheduler {

struct SchedulerOutput;
struct StepEntry;

/// The draft tokens of the step being scheduled: asks the drafter for them, and gives them to the
/// running requests as far as the step has room. Counts which drafts are accepted, and pauses
/// requests whose drafts fail. Without a drafter it does nothing. After the constructor it does not
/// allocate. Borrows everything.
class DraftQueue {
 public:
  DraftQueue(const SchedulerConfig& config,
             kv_cache::KvCacheManager& cache,
             speculative::Drafter* drafter);

  /// Decides whether a new request begins with drafts.
  void open_gate(Request& request) const;
  /// Asks the drafter for drafts of all running requests that only have to compute their last token
  /// in this step. The requests do not change: take() gives them their drafts.
  void propose(std::span<Request* const> running);
  /// Appends the proposed drafts to a request, as many as the step has room for, and makes sure
  /// that the request has blocks for them. Returns their number. Called for the running requests in
  /// their order. `num_later`: the number of running requests that are scheduled after this one.
  [[nodiscard]] int take(Request& request, int token_budget, int num_later);
  /// Updates the counts after a step in which `num_accepted` drafts were accepted.
  void observe(const StepEntry& entry, int num_accepted);
  /// Tells the drafter that the request has ended.
  void end_request(const Request& request) noexcept;

  [[nodiscard]] const speculative::SpeculationStats& stats() const noexcept { return stats_; }

 private:
  /// The drafter's proposal for one request.
  struct Proposal {
    Request* request = nullptr;
    size_t first = 0;  // index in tokens_
    int num_drafts = 0;
  };

  [[nodiscard]] int most_drafts(const Request& request, size_t num_running) const;
  [[nodiscard]] static speculative::DraftRequest open(Request& request, int most);
  void keep(const speculative::DraftRequest& from, Proposal& proposal);
  [[nodiscard]] bool allocate_slots(Request& request, int num_drafts, int num_later);

  const SchedulerConfig* config_;
  kv_cache::KvCacheManager* cache_;
  speculative::Drafter* drafter_;  // nullptr: there are no drafts
  speculative::SpeculationStats stats_;
  speculative::RecentAcceptance recent_acceptance_;  // of all requests
  // Requests to the drafter, in the order of the running requests.
  std::vector<speculative::DraftRequest> requests_;
  std::vector<Proposal> proposals_;
  std::vector<int32_t> tokens_;
  size_t next_ = 0;  // index of the first proposal that no request has taken
};

/// Makes a step of decodes uniform: every request gets as many tokens as the narrowest graphs need
/// that hold the request with most drafts. Does nothing if that would more than double the tokens
/// of the step.
void pad_drafts(SchedulerOutput& output, const SchedulerConfig& config);

/// Takes back the drafts of a step that did not become tokens of the request.
void take_back_drafts(const StepEntry& entry, int num_new_tokens);

}  // namespace reprise::scheduler
