#pragma once

#include <memory>
#include <optional>

#include "reprise/api/options/engine_args.h"
#include "reprise/parallel/communicator.h"

namespace reprise::cli {

/// The ranks of a command that loads a model: --tensor-parallel-size for each of
/// --pipeline-parallel-size stages of each of --data-parallel-size engines. With one rank it does
/// nothing.
///
/// A program that a launcher started (mpirun, torchrun, SLURM) joins the other ranks. A program
/// that was started alone starts the ranks, through mpirun or itself, with the same arguments. Rank
/// 0 does the work of the command; the other ranks of its engine follow it, and the other engines
/// answer the requests that it sends them. When a rank is lost, each rank that notices it says so
/// on stderr and ends soon afterwards, and the launcher ends the rest.
class RankSession {
 public:
  /// Sets args.ranks, which lives as long as this object. \throws InvalidArgument, Error
  explicit RankSession(api::EngineArgs& args);
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;
  /// Ends the ranks in an orderly way, except while an exception is thrown.
  ~RankSession();

  /// Whether another process does the work of the command: this process is a rank other than rank
  /// 0, or it started the ranks.
  [[nodiscard]] bool is_elsewhere() const noexcept;
  /// Runs the steps of rank 0, or answers its requests, until it ends. Returns the exit code. \pre
  /// is_elsewhere()
  [[nodiscard]] int run(const api::EngineArgs& args);

 private:
  void join_groups(api::EngineArgs& args);

  std::unique_ptr<parallel::Communicator> ranks_;       // all
  std::unique_ptr<parallel::Communicator> of_engine_;   // nullptr: an engine has one rank
  std::unique_ptr<parallel::Communicator> of_stage_;    // nullptr: an engine has one stage
  std::unique_ptr<parallel::Communicator> of_engines_;  // the first rank of each
  std::unique_ptr<parallel::Communicator> of_experts_;  // nullptr: engines do not share experts
  std::optional<int> exit_code_;  // the exit code of the ranks, if this process started them
  int num_exceptions_ = 0;
};

}  // namespace reprise::cli
