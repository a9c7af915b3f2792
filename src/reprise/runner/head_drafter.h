#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/block_pool.h"
#include "reprise/models/draft_head.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/most_likely_tokens.h"
#include "reprise/runner/step_result.h"
#include "reprise/speculative/drafter.h"

namespace reprise::runner {

class ModelRunner;
struct ModelStep;

struct HeadDrafterOptions {
  int32_t max_num_reqs = 0;    // requests per step
  int32_t max_num_tokens = 0;  // tokens per step of the main model, including padding
  int32_t max_model_len = 0;   // the head predicts nothing behind these positions
  int32_t num_speculative_tokens = 0;
  int64_t num_main_blocks = 0;  // cache blocks of the main model, including the null block
  kernels::RowSampler* row_sampler = nullptr;  // of the head's logits; nullptr: the host chooses
};

/// Proposes what a draft head predicts from the hidden states of the main model (EAGLE, MTP).
///
/// The head has its own cache tensors, but the block tables are those of the main model: entry p of
/// the head is computed from the main model's hidden state of position p and from token p + 1,
/// directly after the step that computed position p. So whatever happens to blocks (prefixes that
/// are found, chunks, preemption) happens to the entries of both models.
///
/// After each step of the main model, follow() runs one step of the head: the tokens of the step
/// that became final. If the main model's step was a uniform decode batch, so is the head's: rows
/// with rejected drafts are padded. The results are the first drafts. propose_all() then runs a
/// step of one token per request for each further draft. There the head continues from its own
/// hidden states. These tokens are guesses: their entries are computed again when they are final.
/// Entries behind the last block of a request lie in scratch blocks that this class owns.
///
/// All drafts are the most likely tokens. If a step fails, nothing is proposed; the entries that it
/// should have written then make later drafts worse, and never an answer wrong.
///
/// Hidden states stay on the device: the runner's stream copies them in the order of the steps.
///
/// Borrows runner and head. Belongs to one thread.
class HeadDrafter final : public speculative::Drafter {
 public:
  /// \pre the runner's cache has num_blocks() blocks, and its graphs have the decode widths of the
  /// main model
  HeadDrafter(ModelRunner& runner, models::DraftHead& head, const HeadDrafterOptions& options);

  /// The number of blocks of the head's cache: the main model's blocks, and the scratch blocks.
  [[nodiscard]] static int64_t num_blocks(int64_t num_main_blocks,
                                          int32_t max_num_reqs,
                                          int32_t num_speculative_tokens,
                                          int32_t block_size) noexcept;

  /// The bytes that the constructor will allocate.
  [[nodiscard]] static int64_t memory_bytes(const ModelRunner& runner,
                                            const models::DraftHead& head,
                                            int32_t max_num_tokens,
                                            int32_t max_num_reqs) noexcept;

  [[nodiscard]] bool follows_steps() const noexcept override { return true; }
  /// Takes the hidden states and the sampled tokens of the step.
  void follow(const speculative::FollowedStep& followed) noexcept override;
  void propose_all(std::span<speculative::DraftRequest> requests) noexcept override;

  void forget_all() noexcept override { rows_.clear(); }
  [[nodiscard]] const cudagraph::DispatchLedger* ledger() const noexcept override {
    return &ledger_;
  }
  [[nodiscard]] uint64_t num_failed_calls() const noexcept { return num_failed_calls_; }

 private:
  /// A request of the last step that can have drafts.
  struct Row {
    uint64_t request_id = 0;
    int num_known = 0;                             // tokens of the request
    int32_t first_draft = 0;                       // the token after them
    size_t index = 0;                              // of its hidden state and its blocks
    speculative::DraftRequest* request = nullptr;  // in propose_all()
    int most = 0;                                  // drafts to propose
    int num_scratch_blocks = 0;
  };
  /// Tokens of a request in a step of the head.
  struct Part {
    int32_t source_row = 0;  // of the main model's hidden states
    int32_t row = 0;         // of the head's step
    int32_t num_tokens = 0;
  };

  void run_first_step(const ModelStep& step, const StepResult& result);
  void gather(const ModelStep& step);
  void stage_features(const Tensor& auxiliary, int32_t num_rows);
  void take_first_drafts(const StepResult& result);
  void propose(std::span<speculative::DraftRequest> requests);
  [[nodiscard]] Row* find_row(const speculative::DraftRequest& request);
  void draft(size_t index);
  [[nodiscard]] kv_cache::BlockId next_scratch_block(Row& row);
  /// The target's most likely tokens, of the first `count` rows of a step of the head.
  [[nodiscard]] std::span<const int32_t> most_likely(const StepResult& result, int32_t count);
  [[nodiscard]] std::byte* hidden_of(size_t index) noexcept {
    return static_cast<std::byte*>(kept_hidden_.data()) + index * hidden_bytes_;
  }
  void keep_hidden(size_t index, const Tensor& auxiliary, int32_t row);

  ModelRunner* runner_;
  models::DraftHead* head_;
  HeadDrafterOptions options_;
  size_t hidden_bytes_;   // of one row that the head reads
  size_t feature_bytes_;  // bytes of one row of the main model's hidden states
  device::Buffer features_;
  device::Buffer kept_hidden_;  // one row per Row
  MostLikelyTokens most_likely_;
  std::vector<int32_t> tokens_;  // the target's tokens of one step
  cudagraph::DispatchLedger ledger_;
  std::vector<scheduler::StepEntry> batch_;
  std::vector<Part> parts_;                                // by batch_
  std::vector<Row> rows_;                                  // of the last step, by request id
  std::vector<Row*> drafting_;                             // the rows of one step
  std::vector<std::vector<kv_cache::BlockId>> block_ids_;  // by Row::index
  uint64_t num_failed_calls_ = 0;
};

}  // namespace reprise::runner
