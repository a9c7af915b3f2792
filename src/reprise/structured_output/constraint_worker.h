#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "reprise/structured_output/token_constraint.h"

namespace reprise::structured_output {

struct ConstraintWorkerOptions {
  /// The first thread serves expensive and new constraints. If there are three or more threads, the
  /// second serves only new ones. Both have a low priority. The other threads serve only quick
  /// constraints, so expensive constraints delay neither quick nor new ones.
  int num_threads = 3;
  /// The largest cost of a quick constraint. Usual constraints need 0.1 ms for a token.
  std::chrono::nanoseconds quick_cost = std::chrono::microseconds(500);
};

/// Does the work of constraints on its own threads: accepts a token and makes the mask for the next
/// one. The thread that computes steps asks for the work and reads the results from
/// TokenConstraint::turn.
///
/// All functions are called by one thread. Work that has not begun is dropped if the request of its
/// answer is gone. The destructor waits a moment for work that has begun. Work that takes longer
/// continues on its thread until it is done or the process ends.
class ConstraintWorker {
 public:
  explicit ConstraintWorker(const ConstraintWorkerOptions& options);
  ConstraintWorker(const ConstraintWorker&) = delete;
  ConstraintWorker& operator=(const ConstraintWorker&) = delete;
  ~ConstraintWorker();

  /// Continues the answer with `token_id`, if given, and makes the next mask. The constraint's turn
  /// is `working` until the results are ready. \pre the turn is not `working`
  void prepare(std::shared_ptr<TokenConstraint> constraint, std::optional<int32_t> token_id);

  /// How often a constraint has become ready.
  [[nodiscard]] uint64_t num_prepared() const;
  /// Waits until num_prepared() is more than `num_known`. \return false if the time ended first
  bool wait_for_more(uint64_t num_known, std::chrono::steady_clock::time_point deadline);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the threads, which may outlive this object
};

}  // namespace reprise::structured_output
