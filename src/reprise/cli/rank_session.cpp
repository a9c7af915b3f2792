#include "reprise/cli/rank_session.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/graph_trust.h"
#include "reprise/api/options/extension_options.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/api/replicas/replica_router.h"
#include "reprise/base/error.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/rank_launch.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/device/cpu/usable_cores.h"
#include "reprise/device/error.h"
#include "reprise/parallel/mpi_plugin.h"
#include "reprise/parallel/tcp_transport.h"

namespace reprise::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kInvalid = 2;  // a mistake in the options

std::string sizes_text(const api::EngineArgs& args) {
  std::string text;
  const auto add = [&text](std::string_view option, int32_t size) {
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", option, size);
  };
  add("--tensor-parallel-size", args.tensor_parallel_size);
  add("--pipeline-parallel-size", args.pipeline_parallel_size);
  add("--data-parallel-size", args.data_parallel_size);
  return text.empty() ? "--tensor-parallel-size 1" : text;
}

// The number of ranks; 1 if a size is invalid, because invalid sizes are reported with the other
// options.
int num_ranks_of(const api::EngineArgs& args) {
  constexpr int kMostOfOneSize = 65535;  // no product overflows
  const int64_t product = int64_t{std::clamp(args.tensor_parallel_size, 1, kMostOfOneSize)} *
                          std::clamp(args.pipeline_parallel_size, 1, kMostOfOneSize) *
                          std::clamp(args.data_parallel_size, 1, kMostOfOneSize);
  if (product > parallel::Communicator::kMaxRanks) {
    throw InvalidArgument(fmt::format("{}: at most {} ranks can work together",
                                      sizes_text(args),
                                      parallel::Communicator::kMaxRanks));
  }
  return static_cast<int>(product);
}

// Gives each rank of this machine its own cores, unless the launcher has done so. Otherwise the
// workers of all ranks would be pinned to the same cores. A rank with one thread is not bound: its
// thread may leave a core that another process uses.
void take_cores(int local_rank, int num_local_ranks, int32_t& num_threads) {
  const std::vector<int> cores = device::usable_cores();
  if (cores.size() < std::thread::hardware_concurrency() || num_local_ranks < 2) return;
  const size_t share = std::max<size_t>(1, cores.size() / static_cast<size_t>(num_local_ranks));
  if (share == 1) num_threads = 1;
  if (num_threads == 1) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = 0; i < share; ++i) {
    const size_t index = (static_cast<size_t>(local_rank) * share + i) % cores.size();
    CPU_SET(cores[index], &set);
  }
  (void)sched_setaffinity(0, sizeof set, &set);
}

// NCCL would register buffers of captured exchanges with the memory that is behind their addresses
// at that time. This project maps memory itself, and registrations would keep what was mapped
// before. NCCL reads this setting from the environment only. No thread exists yet.
void keep_nccl_from_registering() { setenv("NCCL_GRAPH_REGISTER", "0", 0); }

void end_as_on_sigterm(int /*signal*/) { std::raise(SIGTERM); }

// The process may be stuck in a wait for the lost rank, so it ends after a moment in any case.
// Until then requests can be answered with an error.
void end_soon() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(kFailed);
  }).detach();
}

// Starts this program again as every rank. Returns the exit code.
int start_ranks(const api::EngineArgs& args, int num_ranks, const LookUpVariable& look_up) {
  const std::string& backend = args.distributed_executor_backend;
  if (backend == "uni" || backend == "external_launcher") {
    throw InvalidArgument(fmt::format(
        "--distributed-executor-backend {}: {} needs {} ranks, and {}",
        backend,
        sizes_text(args),
        num_ranks,
        backend == "uni" ? "uni has one"
                         : "no launcher has set RANK and WORLD_SIZE, or SLURM_PROCID and "
                           "SLURM_NTASKS"));
  }
  const bool has_plugin = parallel::has_mpi_plugin(parallel::default_mpi_plugin_paths());
  if (backend == "mpi" && !has_plugin) {
    throw InvalidArgument(
        fmt::format("--distributed-executor-backend mpi: {}", parallel::missing_mpi_text()));
  }
  const bool uses_mpi =
      backend == "mpi" || (backend == "auto" && has_plugin && has_mpirun(look_up));
  return uses_mpi ? run_mpirun(num_ranks) : run_rank_processes(num_ranks);
}

std::unique_ptr<parallel::Transport> join_mpi(const api::EngineArgs& args) {
  parallel::LoadedTransport loaded =
      parallel::load_mpi_plugin(parallel::default_mpi_plugin_paths());
  if (!loaded.transport) throw Error(fmt::format("{}: {}", sizes_text(args), loaded.reason));
  return std::move(loaded.transport);
}

std::unique_ptr<parallel::Transport> join_tcp(const LaunchedRank& launched,
                                              const api::EngineArgs& args) {
  parallel::TcpMeeting meeting{.rank = launched.rank,
                               .size = launched.size,
                               .address = launched.address,
                               .port = launched.port};
  // Another launcher may start ranks minutes apart; this program starts all ranks at once.
  if (launched.listener_fd >= 0) {
    meeting.timeout = std::chrono::seconds(std::max(1, args.distributed_timeout_seconds));
    if (launched.rank == 0) meeting.listener = parallel::Socket(launched.listener_fd);
  }
  meeting.on_unknown_peer = [rank = launched.rank](const std::string& text) {
    print_error("reprise: rank {}: {}\n", rank, text);
  };
  // Child processes of this rank must not take the socket for their own.
  unsetenv("REPRISE_LISTENER_FD");
  std::vector<parallel::Socket> sockets = parallel::meet(std::move(meeting));
  return std::make_unique<parallel::TcpTransport>(launched.rank, std::move(sockets));
}

}  // namespace

void RankSession::join_groups(api::EngineArgs& args) {
  const int per_engine = args.ranks_per_engine();
  const int engine = ranks_->rank() / per_engine;
  const int rank_of_engine = ranks_->rank() % per_engine;
  if (per_engine > 1) {
    std::vector<int> members(static_cast<size_t>(per_engine));
    std::iota(members.begin(), members.end(), engine * per_engine);
    of_engine_ = ranks_->group(parallel::GroupKind::engine, std::move(members));
    args.ranks = of_engine_.get();
  }
  if (args.tensor_parallel_size > 1 && args.pipeline_parallel_size > 1) {
    const int stage = rank_of_engine / args.tensor_parallel_size;
    std::vector<int> members(static_cast<size_t>(args.tensor_parallel_size));
    std::iota(
        members.begin(), members.end(), engine * per_engine + stage * args.tensor_parallel_size);
    of_stage_ = ranks_->group(parallel::GroupKind::tensor, std::move(members));
    args.tensor_ranks = of_stage_.get();
  }
  if (args.data_parallel_size > 1 && rank_of_engine == 0) {
    std::vector<int> members;
    for (int i = 0; i < args.data_parallel_size; ++i) members.push_back(i * per_engine);
    if (args.shares_experts()) {
      of_experts_ = ranks_->group(parallel::GroupKind::expert, members);
      args.expert_engines = of_experts_.get();
    }
    of_engines_ = ranks_->group(parallel::GroupKind::data, std::move(members));
    args.replicas = of_engines_.get();
  }
}

RankSession::RankSession(api::EngineArgs& args) : num_exceptions_(std::uncaught_exceptions()) {
  const int num_ranks = num_ranks_of(args);
  const LookUpVariable look_up = look_up_process_environment;
  // A process that is its only rank ignores the variables of launchers, except those of mpirun: the
  // processes of mpirun would all do the same work.
  const std::optional<LaunchedRank> launched = find_launched_rank(look_up);
  if (num_ranks == 1 && (!launched || !launched->is_mpi)) return;
  if (!launched) {
    api::load_extension_files(args);
    api::ResolvedOptions options = api::resolve_options(args);
    api::check_graph_trust(args, options);
    exit_code_ = start_ranks(args, num_ranks, look_up);
    return;
  }
  if (launched->size != num_ranks) {
    // Only rank 0 reports a mistake in the options.
    if (launched->rank > 0) std::_Exit(kInvalid);
    throw InvalidArgument(fmt::format("{} started {} ranks, and {} needs {}: both must be equal",
                                      launched->launcher,
                                      launched->size,
                                      sizes_text(args),
                                      num_ranks));
  }
  keep_nccl_from_registering();
  std::unique_ptr<parallel::Transport> transport =
      launched->is_mpi ? join_mpi(args) : join_tcp(*launched, args);
  take_cores(launched->local_rank.value_or(launched->rank),
             launched->local_size.value_or(num_ranks),
             args.num_threads);
  const std::chrono::milliseconds timeout = std::chrono::seconds(args.distributed_timeout_seconds);
  ranks_ = std::make_unique<parallel::Communicator>(
      std::move(transport),
      parallel::CommunicatorOptions{.timeout = timeout,
                                    // The silence after which a rank counts as lost.
                                    .silence = timeout * 3 / 5,
                                    .local_rank = launched->local_rank.value_or(launched->rank),
                                    .on_failure = [](const std::string& reason) {
                                      print_error("reprise: {}\n", reason);
                                      end_soon();
                                    }});
  join_groups(args);
  std::signal(SIGUSR1, ranks_->rank() == 0 ? end_as_on_sigterm : SIG_IGN);
  if (const char* file = std::getenv(kStartFileVariable); file != nullptr && ranks_->rank() == 0) {
    (void)unlink(file);  // the process that started the ranks forwards signals from now on
  }
}

RankSession::~RankSession() {
  if (!ranks_ || std::uncaught_exceptions() > num_exceptions_) return;
  try {
    ranks_->check();
    ranks_->finish();
  } catch (const std::exception&) {
    // on_failure has named the lost rank already. The work is done, but the exit code must report
    // the failure.
    (void)std::fflush(nullptr);
    std::_Exit(kFailed);
  }
}

bool RankSession::is_elsewhere() const noexcept {
  return exit_code_ || (ranks_ && ranks_->rank() > 0);
}

int RankSession::run(const api::EngineArgs& args) {
  if (exit_code_) return *exit_code_;
  // Only rank 0 obeys these signals. It lets the other ranks end.
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  try {
    const bool is_other_engine = args.replicas != nullptr && args.replicas->rank() > 0;
    is_other_engine ? api::serve_replica(args) : api::follow_rank_0(args);
    return 0;
  } catch (const InvalidArgument& error) {
    print_error("reprise: rank {}: {}\n", ranks_->rank(), error.what());
    std::_Exit(kInvalid);
  } catch (const std::exception& error) {
    if (!ranks_->has_failed()) {
      print_error("reprise: rank {}: {}\n", ranks_->rank(), error.what());
    }
    // _Exit() instead of exit(): rank 0 and mpirun must not wait for this rank to release anything.
    std::_Exit(kFailed);
  }
}

}  // namespace reprise::cli
