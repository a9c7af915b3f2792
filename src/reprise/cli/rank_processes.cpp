#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/rank_launch.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/parallel/tcp_rendezvous.h"

namespace reprise::cli {
namespace {

constexpr int kLauncherFailed = 1;
// The exit code of a shell for a program that does not exist.
constexpr int kNotFound = 127;
// The time from the failure of a rank, or from the end of rank 0, until the ranks that still run
// are killed. A rank that notices a loss ends after 3 s. In an orderly end all ranks end at the
// same time.
constexpr std::chrono::seconds kTimeToEnd{6};

// The command line of this process.
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
std::vector<std::string> launcher_command_line(int num_ranks, std::string_view start_file) {
  std::vector<std::string> words = {
      "mpirun",
      "-n",
      std::to_string(num_ranks),
      // Ranks choose their cores themselves, because there may be fewer cores than ranks.
      "--bind-to",
      "none",
      "--oversubscribe",
      // Containers often forbid one process to read another's memory.
      "--mca",
      "btl_vader_single_copy_mechanism",
      "none",
      // Seconds from SIGTERM to SIGKILL when a rank is lost. mpirun waits this time twice for all
      // ranks.
      "--mca",
      "odls_base_sigkill_timeout",
      "2"};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (!start_file.empty()) {
    words.emplace_back("-x");
    words.push_back(fmt::format("{}={}", kStartFileVariable, start_file));
  }
  for (std::string& word : own_command_line()) words.push_back(std::move(word));
  return words;
}

// The process of mpirun, for the handler of signals.
volatile pid_t launcher_pid = 0;

// The file of kStartFileVariable; "": there is none. For the handler of signals.
char start_file[4096] = "";
// How many seconds a signal may still wait for rank 0.
volatile std::sig_atomic_t seconds_to_start = 60;

// On SIGTERM, mpirun would end all ranks at once. It forwards SIGUSR1 to them: rank 0 then ends as
// on SIGTERM, and a server answers its requests first. mpirun loses a signal that comes before its
// ranks run, so until rank 0 obeys the signal, it waits for the next SIGALRM.
void forward_end(int /*signal*/) {
  if (launcher_pid <= 0) return;
  const int error = errno;
  if (start_file[0] != '\0' && seconds_to_start > 0 && access(start_file, F_OK) == 0) {
    seconds_to_start = seconds_to_start - 1;
    alarm(1);
  } else {
    kill(launcher_pid, SIGUSR1);
  }
  errno = error;
}

// Without such a file, signals are forwarded at once.
void make_start_file() {
  std::error_code error;
  const std::string name =
      (std::filesystem::temp_directory_path(error) / "reprise-ranks-XXXXXX").string();
  if (error || name.size() >= sizeof start_file) return;
  name.copy(start_file, name.size());
  const int file = mkstemp(start_file);
  if (file < 0) {
    start_file[0] = '\0';
    return;
  }
  close(file);
}

// The process of rank 0, if this process started the ranks; used by the handler of signals. Rank 0
// lets the other ranks end.
volatile pid_t first_rank_pid = 0;

void forward_end_to_rank_0(int /*signal*/) {
  if (first_rank_pid > 0) kill(first_rank_pid, SIGTERM);
}

struct RankProcess {
  int rank = 0;
  pid_t pid = 0;  // 0: it has ended
};

// Does not return.
[[noreturn]] void become_rank(int rank, int num_ranks, uint16_t port, int listener, pid_t parent) {
  // The ranks never outlive the process that the user started.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kLauncherFailed);
  if (rank == 0) (void)fcntl(listener, F_SETFD, 0);
  // Where two entries have the same name, the first one counts. So these entries come first.
  std::vector<std::string> variables = {fmt::format("RANK={}", rank),
                                        fmt::format("WORLD_SIZE={}", num_ranks),
                                        fmt::format("LOCAL_RANK={}", rank),
                                        fmt::format("LOCAL_WORLD_SIZE={}", num_ranks),
                                        "MASTER_ADDR=127.0.0.1",
                                        fmt::format("MASTER_PORT={}", port),
                                        fmt::format("REPRISE_LISTENER_FD={}", listener)};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::vector<std::string> words = own_command_line();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  execve(pointers[0], pointers.data(), environment.data());
  _exit(kNotFound);
}

void report_end(const RankProcess& process, int status) {
  if (WIFSIGNALED(status)) {
    print_error("reprise: rank {} (process {}) was ended by signal {} ({})\n",
                process.rank,
                process.pid,
                WTERMSIG(status),
                strsignal(WTERMSIG(status)));
  } else {
    print_error("reprise: rank {} (process {}) ended with exit code {}\n",
                process.rank,
                process.pid,
                WEXITSTATUS(status));
  }
}

// Kills ranks that are stopped or stuck. The launcher would otherwise wait for them for ever.
void kill_ranks(std::span<const RankProcess> processes) {
  for (const RankProcess& process : processes) {
    if (process.pid == 0) continue;
    print_error(
        "reprise: rank {} (process {}) did not end within {} s after another rank, and is "
        "killed\n",
        process.rank,
        process.pid,
        kTimeToEnd.count());
    kill(process.pid, SIGKILL);
  }
}

// Returns the exit code of the first rank that failed, or 0.
int wait_for_ranks(std::vector<RankProcess> processes) {
  using Clock = std::chrono::steady_clock;
  int code = 0;
  bool are_killed = false;
  Clock::time_point deadline = Clock::time_point::max();
  for (size_t num_running = processes.size(); num_running > 0;) {
    int status = 0;
    const bool is_patient = deadline == Clock::time_point::max();
    const pid_t ended = waitpid(-1, &status, is_patient ? 0 : WNOHANG);
    if (ended <= 0) {
      if (ended < 0 && errno != EINTR) break;
      if (!are_killed && Clock::now() > deadline) {
        kill_ranks(processes);
        are_killed = true;
      }
      if (!is_patient) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const auto process = std::ranges::find(processes, ended, &RankProcess::pid);
    if (process == processes.end()) continue;
    --num_running;
    const bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_well && code == 0) {
      if (num_running > 0 || WIFSIGNALED(status)) report_end(*process, status);
      code = WIFEXITED(status) ? WEXITSTATUS(status) : kLauncherFailed;
    }
    if (process->rank == 0) first_rank_pid = 0;
    if (process->rank == 0 || !is_well) deadline = std::min(deadline, Clock::now() + kTimeToEnd);
    process->pid = 0;
  }
  return code <= 2 ? code : kLauncherFailed;
}

}  // namespace

int run_mpirun(int num_ranks) {
  make_start_file();
  std::vector<std::string> words = launcher_command_line(num_ranks, start_file);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("mpirun cannot be started: {}", std::strerror(errno)));
  if (child == 0) {
    // If this program is killed, mpirun gets SIGTERM and ends, and the ranks with it.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kLauncherFailed);
    execvp(pointers[0], pointers.data());
    _exit(kNotFound);
  }
  launcher_pid = child;
  for (const int signal : {SIGTERM, SIGINT, SIGALRM}) std::signal(signal, forward_end);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  launcher_pid = 0;
  if (start_file[0] != '\0') unlink(start_file);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kLauncherFailed;
  if (code == kNotFound) {
    throw InvalidArgument(
        fmt::format("{} ranks: mpirun cannot be started; install it (Debian: openmpi-bin), or "
                    "start the ranks with another launcher of Open MPI",
                    num_ranks));
  }
  // mpirun returns the exit code of the rank that failed: 128 + N after signal N.
  return code <= 2 ? code : kLauncherFailed;
}

int run_rank_processes(int num_ranks) {
  uint16_t port = 0;
  parallel::Socket listener = parallel::listen_on_free_port(port);
  const pid_t parent = getpid();
  std::vector<RankProcess> processes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) become_rank(rank, num_ranks, port, listener.fd(), parent);
    if (child < 0) {
      const std::string reason = std::strerror(errno);
      for (const RankProcess& process : processes) kill(process.pid, SIGKILL);
      throw Error(fmt::format("rank {} cannot be started: {}", rank, reason));
    }
    processes.push_back({.rank = rank, .pid = child});
  }
  // From here on only rank 0 has the listening socket.
  listener = parallel::Socket();
  first_rank_pid = processes[0].pid;
  std::signal(SIGTERM, forward_end_to_rank_0);
  std::signal(SIGINT, forward_end_to_rank_0);
  return wait_for_ranks(std::move(processes));
}

}  // namespace reprise::cli
