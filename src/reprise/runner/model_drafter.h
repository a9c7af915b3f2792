#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/most_likely_tokens.h"
#include "reprise/sampling/sampler.h"
#include "reprise/speculative/drafter.h"

namespace reprise::runner {

class ModelRunner;

struct ModelDrafterOptions {
  int32_t max_num_reqs = 0;    // requests per step of the draft model
  int32_t max_num_tokens = 0;  // tokens per step of the draft model, at least 2
  int32_t max_model_len = 0;   // the draft model knows no later positions
  int32_t vocab_size = 0;      // the same as the main model's
  int32_t num_speculative_tokens = 0;
  kv_cache::PrefixCaching prefix_caching = kv_cache::PrefixCaching::on;
  /// How drafts of random answers are chosen; see speculative::DraftSampleMethod.
  speculative::DraftSampleMethod sample_method = speculative::DraftSampleMethod::greedy;
  kernels::RowSampler* row_sampler = nullptr;  // of the draft model's logits; nullptr: none
};

/// Proposes what another, smaller model would answer. The draft model has its own runner with its
/// own weights, cache and graphs, and this class schedules its steps.
///
/// One call makes these steps, each for all requests at once:
///   1. catch up: tokens that the draft model's cache lacks, for example a prompt. At most
///      max_num_tokens of them; a request that lacks more gets no drafts and goes on in the next
///      call.
///   2. the first draft: a step of the last two tokens of each request. The second last one is
///      mostly computed already, but not if all drafts of the last step were accepted. So all
///      requests have the same number of tokens, and the step is a uniform decode batch.
///   3. one step of one token per request for each further draft.
///
/// The cache holds the tokens of up to max_num_reqs requests. Those that were not asked for longest
/// lose their blocks first. The draft model's prefix cache works as the main model's. If a step
/// fails, nothing is proposed, and everything is computed anew later.
///
/// Borrows the runner, which no other code may use for steps. Belongs to one thread.
class ModelDrafter final : public speculative::Drafter {
 public:
  /// \pre the runner's graphs have the decode query lengths kFirstQueryLen and 1
  ModelDrafter(ModelRunner& runner, const ModelDrafterOptions& options);

  void propose_all(std::span<speculative::DraftRequest> requests) noexcept override;
  void end_request(const speculative::EndedRequest& request) noexcept override;

  /// Forgets all requests and cached prefixes.
  void forget_all() override;
  [[nodiscard]] const cudagraph::DispatchLedger* ledger() const noexcept override {
    return &ledger_;
  }
  [[nodiscard]] uint64_t num_failed_calls() const noexcept { return num_failed_calls_; }
  [[nodiscard]] const kv_cache::KvCacheManager& kv_cache_manager() const noexcept {
    return kv_cache_manager_;
  }

  /// Tokens per request in the step that gives the first draft.
  static constexpr int32_t kFirstQueryLen = 2;

 private:
  /// The draft model's cache for one request.
  struct Sequence {
    uint64_t request_id = 0;
    uint64_t last_call = 0;  // the last call that used the request; 0: not in use
    int num_known = 0;       // tokens of the request in that call
    // Tokens in the cache; if more than num_known, the rest are drafts.
    int num_computed = 0;
    std::vector<int32_t> drafts;  // the drafts of the last call
    kv_cache::BlockTable block_table;
    kv_cache::BlockHashChain block_hashes;
  };
  /// A request of the current call.
  struct Row {
    speculative::DraftRequest* request = nullptr;
    Sequence* sequence = nullptr;
    int most = 0;  // drafts to propose
  };

  void propose(std::span<speculative::DraftRequest> requests);
  [[nodiscard]] bool open_row(Row& row);
  [[nodiscard]] Sequence& find_sequence(const speculative::DraftRequest& request);
  void start(Sequence& sequence, const speculative::DraftRequest& request);
  static void keep_what_is_right(Sequence& sequence, std::span<const int32_t> token_ids);
  [[nodiscard]] bool allocate(Row& row);
  [[nodiscard]] Sequence* longest_unused();
  void forget(Sequence& sequence);
  void catch_up();
  void draft(size_t index);
  void run_rows(std::span<Row*> rows, size_t index);
  void take_drafts(std::span<Row*> rows, size_t index, const StepResult& result);
  [[nodiscard]] bool wants_most_likely(const Row& row) const;
  void sample(Row& row, size_t index, std::span<const float> logits);
  static void add_draft(Row& row, size_t index, int32_t token);
  void close_row(Row& row);

  ModelRunner* runner_;
  ModelDrafterOptions options_;
  kv_cache::KvCacheManager kv_cache_manager_;
  MostLikelyTokens most_likely_;
  sampling::Sampler sampler_;
  sampling::SampledToken sampled_;
  cudagraph::DispatchLedger ledger_;
  std::vector<Sequence> sequences_;
  std::unordered_map<uint64_t, size_t> by_request_;  // index in sequences_
  std::vector<Row> rows_;
  std::vector<Row*> drafting_;  // the rows of one step
  std::vector<scheduler::StepEntry> batch_;
  uint64_t num_calls_ = 0;
  uint64_t num_failed_calls_ = 0;
};

}  // namespace reprise::runner
