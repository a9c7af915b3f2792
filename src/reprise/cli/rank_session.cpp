#include "reprise/cli/rank_session.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/api/rank_options.h"
#include "reprise/api/replica_router.h"
#include "reprise/api/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/cli/environment.h"
#include "reprise/device/cpu/usable_cores.h"
#include "reprise/device/error.h"
#include "reprise/parallel/mpi_plugin.h"

namespace reprise::cli {
namespace {

constexpr int kFailed = 1;
// What a shell also answers for a program that is not there.
constexpr int kNotFound = 127;

std::optional<int> find_number(const char* variable) {
  const std::optional<std::string> text = look_up_process_environment(variable);
  int number = 0;
  if (!text ||
      std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc{}) {
    return std::nullopt;
  }
  return number;
}

// 1 for numbers that are reported with the other options.
int num_ranks_of(const api::EngineArgs& args) {
  const int64_t product =
      int64_t{std::max(1, args.tensor_parallel_size)} * std::max(1, args.data_parallel_size);
  if (product > parallel::Communicator::kMaxRanks) {
    throw InvalidArgument(
        fmt::format("--tensor-parallel-size {} x --data-parallel-size {}: at most {} ranks can "
                    "work together",
                    args.tensor_parallel_size,
                    args.data_parallel_size,
                    parallel::Communicator::kMaxRanks));
  }
  return static_cast<int>(product);
}

std::string sizes_text(const api::EngineArgs& args) {
  if (args.data_parallel_size == 1) {
    return fmt::format("--tensor-parallel-size {}", args.tensor_parallel_size);
  }
  if (args.tensor_parallel_size == 1) {
    return fmt::format("--data-parallel-size {}", args.data_parallel_size);
  }
  return fmt::format("--tensor-parallel-size {} x --data-parallel-size {}",
                     args.tensor_parallel_size,
                     args.data_parallel_size);
}

// This program with its arguments.
std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length > 0 && !words.empty()) words[0].assign(path, static_cast<size_t>(length));
  return words;
}

// The arguments of mpirun, which starts this program again as every rank.
std::vector<std::string> launcher_command_line(int num_ranks) {
  std::vector<std::string> words = {
      "mpirun",
      "-n",
      std::to_string(num_ranks),
      // The ranks choose their cores themselves, and there may be fewer cores than ranks.
      "--bind-to",
      "none",
      "--oversubscribe",
      // Containers often forbid one process to read another's memory.
      "--mca",
      "btl_vader_single_copy_mechanism",
      "none",
      // Seconds from SIGTERM to SIGKILL when a rank is lost. mpirun waits for all of them, twice.
      "--mca",
      "odls_base_sigkill_timeout",
      "2"};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  for (std::string& word : own_command_line()) words.push_back(std::move(word));
  return words;
}

// The process of mpirun, for the handler of signals.
volatile pid_t launcher_pid = 0;

// mpirun itself would end all ranks at once on SIGTERM. It forwards SIGUSR1, on which rank 0 ends
// as on SIGTERM: a server answers its requests first.
void forward_end(int /*signal*/) {
  if (launcher_pid > 0) kill(launcher_pid, SIGUSR1);
}

void end_as_on_sigterm(int /*signal*/) { std::raise(SIGTERM); }

// Runs mpirun to its end. Returns its exit code.
int run_launcher(int num_ranks) {
  std::vector<std::string> words = launcher_command_line(num_ranks);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("mpirun cannot be started: {}", std::strerror(errno)));
  if (child == 0) {
    // If this program is killed, mpirun ends, and with it the ranks.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kFailed);
    execvp(pointers[0], pointers.data());
    _exit(kNotFound);
  }
  launcher_pid = child;
  std::signal(SIGTERM, forward_end);
  std::signal(SIGINT, forward_end);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  launcher_pid = 0;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
  if (code == kNotFound) {
    throw InvalidArgument(
        fmt::format("{} ranks: mpirun cannot be started; install it (Debian: openmpi-bin), or "
                    "start the ranks with another launcher of Open MPI",
                    num_ranks));
  }
  // mpirun gives the code of the rank that failed, which is 128 + N for a signal.
  return code <= 2 ? code : kFailed;
}

// Gives each rank of this machine cores of its own, unless the launcher has done so. Without that
// the workers of all ranks would be pinned to the same cores. A rank with one thread is not bound:
// its thread may leave a core that another process uses.
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

// The process may be stuck in a wait for the lost rank, so it ends after a moment in any case.
// Until then requests can be answered with an error.
void end_soon() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(kFailed);
  }).detach();
}

}  // namespace

void RankSession::join_groups(api::EngineArgs& args) {
  const int per_engine = args.tensor_parallel_size;
  const int engine = ranks_->rank() / per_engine;
  const int rank_of_engine = ranks_->rank() % per_engine;
  if (per_engine > 1) {
    std::vector<int> members(static_cast<size_t>(per_engine));
    std::iota(members.begin(), members.end(), engine * per_engine);
    of_engine_ = ranks_->group(parallel::GroupKind::tensor, std::move(members));
    args.ranks = of_engine_.get();
  }
  if (args.data_parallel_size > 1 && rank_of_engine == 0) {
    std::vector<int> members;
    for (int i = 0; i < args.data_parallel_size; ++i) members.push_back(i * per_engine);
    of_engines_ = ranks_->group(parallel::GroupKind::data, std::move(members));
    args.replicas = of_engines_.get();
  }
}

RankSession::RankSession(api::EngineArgs& args) : num_exceptions_(std::uncaught_exceptions()) {
  const int num_ranks = num_ranks_of(args);
  const int num_started = find_number("OMPI_COMM_WORLD_SIZE").value_or(1);
  if (num_ranks <= 1 && num_started <= 1) return;
  // A mistake in the options is reported once, and not by every rank.
  const bool is_first = find_number("OMPI_COMM_WORLD_RANK").value_or(0) == 0;
  if (num_started <= 1) {
    (void)api::resolve_options(args);
    if (!parallel::has_mpi_plugin(parallel::default_mpi_plugin_paths())) {
      throw InvalidArgument(
          fmt::format("{}: {}", sizes_text(args), parallel::missing_mpi_text()));
    }
    exit_code_ = run_launcher(num_ranks);
    return;
  }
  if (num_started != num_ranks) {
    if (!is_first) std::_Exit(2);
    throw InvalidArgument(
        fmt::format("mpirun started {} ranks, and {} asks for {}: both must be equal",
                    num_started,
                    sizes_text(args),
                    num_ranks));
  }
  parallel::LoadedTransport loaded =
      parallel::load_mpi_plugin(parallel::default_mpi_plugin_paths());
  if (!loaded.transport) {
    throw Error(fmt::format("{}: {}", sizes_text(args), loaded.reason));
  }
  take_cores(find_number("OMPI_COMM_WORLD_LOCAL_RANK").value_or(loaded.transport->rank()),
             find_number("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(num_ranks),
             args.num_threads);
  const std::chrono::milliseconds timeout = std::chrono::seconds(args.distributed_timeout_seconds);
  ranks_ = std::make_unique<parallel::Communicator>(
      std::move(loaded.transport),
      parallel::CommunicatorOptions{.timeout = timeout,
                                    // The silence after which a rank counts as lost.
                                    .silence = timeout * 3 / 5,
                                    .on_failure = [](const std::string& reason) {
                                      fmt::print(stderr, "reprise: {}\n", reason);
                                      end_soon();
                                    }});
  join_groups(args);
  std::signal(SIGUSR1, ranks_->rank() == 0 ? end_as_on_sigterm : SIG_IGN);
}

RankSession::~RankSession() {
  if (!ranks_ || ranks_->has_failed() || std::uncaught_exceptions() > num_exceptions_) return;
  try {
    ranks_->finish();
  } catch (const std::exception&) {
    // The rank that is missing was named by on_failure.
  }
}

bool RankSession::is_elsewhere() const noexcept {
  return exit_code_ || (ranks_ && ranks_->rank() > 0);
}

int RankSession::run(const api::EngineArgs& args) {
  if (exit_code_) return *exit_code_;
  // Signals for the end go to rank 0, which lets the others end.
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  try {
    const bool is_other_engine = args.replicas != nullptr && args.replicas->rank() > 0;
    is_other_engine ? api::serve_replica(args) : api::follow_rank_0(args);
    return 0;
  } catch (const std::exception& error) {
    if (!ranks_->has_failed()) {
      fmt::print(stderr, "reprise: rank {}: {}\n", ranks_->rank(), error.what());
    }
    // Not by way of exit(): rank 0 and mpirun must not wait for anything that this rank holds.
    std::_Exit(kFailed);
  }
}

}  // namespace reprise::cli
