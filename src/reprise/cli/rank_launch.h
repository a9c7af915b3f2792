#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/cli/environment.h"

namespace reprise::cli {

/// The facts that a launcher gives to a process that it starts as one of several ranks.
struct LaunchedRank {
  std::string launcher;  // for messages: "mpirun", "RANK and WORLD_SIZE", "SLURM"
  bool is_mpi = false;   // the ranks find each other through MPI; false: through TCP
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // among the ranks of this machine
  std::optional<int> local_size;
  std::string address = "127.0.0.1";  // where rank 0 listens
  uint16_t port = 29500;              // torchrun's
  /// If this program started the ranks: the listening socket of rank 0, in the process of rank 0.
  int listener_fd = -1;
};

/// The variables of mpirun (OMPI_COMM_WORLD_...), else of torchrun (RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), else of SLURM (SLURM_PROCID, SLURM_NTASKS,
/// SLURM_LOCALID, with MASTER_ADDR or else the first name of SLURM_STEP_NODELIST). nullopt: no
/// launcher started this process as one of several ranks.
/// \throws InvalidArgument for a variable that is not a number or out of its range
[[nodiscard]] std::optional<LaunchedRank> find_launched_rank(const LookUpVariable& look_up);

/// The first name of a list in SLURM's notation: "node[03-07,9],other" begins with "node03".
[[nodiscard]] std::string first_node(std::string_view nodes);

/// An environment variable: a file that exists until rank 0 obeys the signal that ends it.
/// run_mpirun() makes the file, and rank 0 removes it.
inline constexpr const char* kStartFileVariable = "REPRISE_RANK_START_FILE";

/// Runs mpirun and waits for it. mpirun starts this program again as every rank. Returns the exit
/// code of mpirun.
[[nodiscard]] int run_mpirun(int num_ranks);

/// Starts this program again as every rank, and waits until all ranks have ended. When a rank ends
/// with an error or is killed, the others get a moment to end by themselves. Returns 0 if no rank
/// failed.
[[nodiscard]] int run_rank_processes(int num_ranks);

/// Whether the shell would find mpirun.
[[nodiscard]] bool has_mpirun(const LookUpVariable& look_up);

}  // namespace reprise::cli
