#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/scheduler_config.h"

namespace reprise::structured_output {
class ConstraintWorker;
}

namespace reprise::engine {

struct LogitsUse;

/// Samples the rows of a step whose answers have a constraint.
///
/// The thread that computes steps only samples. A ConstraintWorker accepts each sampled token and
/// makes the mask for the next one. The step waits a moment for the worker, because only then it is
/// known whether the answer is complete with its token. A token that the worker is not done with is
/// held back, and its answer is postponed: a later step computes the row again and gives out the
/// held token. So the tokens of an answer do not depend on the time that the worker takes.
///
/// Each step: begin(), add() per row, sample(). One thread. Borrows the sampler.
class ConstrainedSampling {
 public:
  /// A row of logits whose request has a constraint.
  struct Row {
    const LogitsUse* use = nullptr;
    std::span<const float> logits;  // [vocab_size]
    sampling::SampledToken* sampled = nullptr;
  };
  /// Whether the step has requests that get no token from sample(): their results wait for it.
  enum class Others : bool { no, yes };

  ConstrainedSampling(sampling::Sampler& sampler, const SchedulerConfig& config);
  ~ConstrainedSampling();

  /// Begins the work on the first masks, which goes on during the forward.
  void begin(std::span<const LogitsUse> uses);
  void add(const Row& row) { rows_.push_back(row); }
  /// Samples the rows, and writes the tokens to their placeholders. \return how many are postponed
  int sample(Others others);

 private:
  [[nodiscard]] bool advance(const Row& row);
  void choose(const Row& row);
  void give_out(const Row& row);
  [[nodiscard]] bool is_worth_waiting(bool waits_for_all) const;
  [[nodiscard]] bool is_end(const LogitsUse& use, int32_t token_id) const;

  sampling::Sampler* sampler_;
  std::vector<int32_t> eos_token_ids_;
  std::chrono::nanoseconds time_per_step_;
  std::vector<Row> rows_;                                        // of the step, without a token yet
  std::unique_ptr<structured_output::ConstraintWorker> worker_;  // null before the first constraint
};

}  // namespace reprise::engine
