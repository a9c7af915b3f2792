#pragma once

#include <memory>

#include "reprise/api/engine_args.h"
#include "reprise/parallel/communicator.h"

namespace reprise::cli {

/// The ranks of a command that loads a model. With --tensor-parallel-size 1 it does nothing.
///
/// A program that mpirun started joins the other ranks. A program that was started alone starts
/// mpirun in its place, with the same arguments, which starts the ranks. Rank 0 does the work of
/// the command; the others follow it. When a rank is lost, each rank that notices it says so on
/// stderr and ends soon afterwards, and mpirun ends the rest.
class RankSession {
 public:
  /// Sets args.ranks, which lives as long as this object. \throws InvalidArgument, Error
  explicit RankSession(api::EngineArgs& args);
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;
  /// Ends the ranks in an orderly way, except while an exception is thrown.
  ~RankSession();

  /// Whether this process is another rank than rank 0.
  [[nodiscard]] bool follows() const noexcept;
  /// Runs the steps of rank 0 until it ends. Returns the exit code. \pre follows()
  [[nodiscard]] int follow(const api::EngineArgs& args);

 private:
  std::unique_ptr<parallel::Communicator> ranks_;
  int num_exceptions_ = 0;
};

}  // namespace reprise::cli
