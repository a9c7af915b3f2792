#pragma once

#include <atomic>
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

namespace reprise::runner {

struct LogitsUse;
struct StepResult;
class ModelRunner;

/// Samples the rows of a step whose answers have a constraint.
///
/// The thread that computes steps only samples. A ConstraintWorker accepts each sampled token and
/// makes the mask for the next one. The step waits a moment for the worker, because only then it is
/// known whether the answer is complete with its token. A token that the worker is not done with is
/// held back, and its answer is postponed: a later step computes the row again and gives out the
/// held token. So the tokens of an answer do not depend on the time that the worker takes.
///
/// A request with drafts has several rows. Each accepted draft goes through the worker before the
/// next row is sampled, so every row is sampled with its own mask. If time runs out, the request
/// keeps the tokens that it has got.
///
/// A model with recurrent layers postpones no answer, because a state must not take a token twice:
/// the step waits for all constraints.
///
/// Each step: begin(), add() per request, sample(). One thread. Borrows the runner and the sampler.
class ConstrainedSampling {
 public:
  /// The rows of logits of a request with a constraint.
  struct Rows {
    const LogitsUse* use = nullptr;
    int32_t first_row = 0;                      // in the step's logits
    std::span<sampling::SampledToken> sampled;  // one per row
    size_t num_done = 0;                        // rows that have their token
  };
  /// Whether the step also has requests whose tokens do not come from sample(). Their results wait
  /// for sample() to return.
  enum class Others : bool { no, yes };

  ConstrainedSampling(ModelRunner& runner,
                      sampling::Sampler& sampler,
                      const scheduler::SchedulerConfig& config);
  ~ConstrainedSampling();

  /// `arrivals` counts the requests that the engine has received, and must outlive this object.
  /// Other threads may change the counter during a step.
  void watch_arrivals(const std::atomic<uint64_t>& arrivals) { arrivals_ = &arrivals; }
  /// Begins the work on the first masks. The work continues during the forward.
  void begin(std::span<const LogitsUse> uses);
  void add(const Rows& rows) { requests_.push_back(rows); }
  /// Samples the rows, and writes the tokens to their placeholders. \return the number of postponed
  /// requests, which get no token
  int sample(const StepResult& result, Others others);

 private:
  [[nodiscard]] bool advance(const StepResult& result, Rows& rows);
  void choose(const StepResult& result, const Rows& rows);
  [[nodiscard]] bool give_out(Rows& rows);
  [[nodiscard]] bool wait_for_more(uint64_t num_prepared,
                                   std::chrono::steady_clock::time_point deadline,
                                   Others others);
  [[nodiscard]] bool is_worth_waiting(bool waits_for_all) const;
  [[nodiscard]] bool is_end(const LogitsUse& use, int32_t token_id) const;

  ModelRunner* runner_;
  sampling::Sampler* sampler_;
  std::vector<int32_t> eos_token_ids_;
  bool may_postpone_;
  std::chrono::nanoseconds time_per_step_;
  std::chrono::steady_clock::time_point began_;  // of the step
  const std::atomic<uint64_t>* arrivals_ = nullptr;
  uint64_t num_arrivals_ = 0;   // when the step began
  std::vector<Rows> requests_;  // the requests of the step that still wait for tokens
  std::unique_ptr<structured_output::ConstraintWorker> worker_;  // null before the first constraint
};

}  // namespace reprise::runner
