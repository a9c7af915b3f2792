#include "reprise/replay_log/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <random>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/thread_priority.h"
#include "reprise/replay_log/record_line.h"

namespace reprise::replay_log {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOthersMayRead = 0044;
// The priority of the writer is lower than that of steps, but not much lower: the process waits for
// this thread at its end.
constexpr int kMoreNiceness = 5;

std::string reason_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why) {
  throw InvalidArgument(
      fmt::format("--replay-log: {} {}; name a file in a folder that exists", path.string(), why));
}

/// The approximate memory of a waiting record.
size_t bytes_of(const RequestRecord& record) {
  return sizeof record + (record.prompt_token_ids.size() + record.token_ids.size()) * 4 +
         record.digests.size() * 8 + (record.constraint ? record.constraint->spec.text.size() : 0);
}

std::string random_engine_id() {
  std::random_device random;
  return digest_text((static_cast<uint64_t>(random()) << 32) | random());
}

}  // namespace

Descriptor open_log(const std::filesystem::path& path) {
  struct stat status{};
  // open() of a pipe without a reader would block.
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
    refuse(path, "is not a file");
  }
  Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, kOwnerOnly));
  if (file.number() < 0) refuse(path, fmt::format("cannot be opened: {}", reason_of(errno)));
  return file;
}

std::string privacy_warning(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if ((status.st_mode & kOthersMayRead) == 0) return {};
  return fmt::format(
      "--replay-log: other users may read {}, which holds prompts; chmod 600 keeps them out",
      path.string());
}

struct LogWriter::Shared {
  void run();
  void write_record(const RequestRecord& record);
  [[nodiscard]] bool write_line(const std::string& line);
  void note_failure(int error);
  void give_up(std::string_view reason);
  void tell(const std::string& text) const {
    if (options.log) options.log(fmt::format("replay log {}: {}", options.path.string(), text));
  }

  Descriptor file;
  LogWriterOptions options;
  std::string engine = random_engine_id();

  // Only for the thread.
  std::string engine_line;        // until it is written
  bool has_open_line = false;     // the file ends with an incomplete line
  bool is_failing = false;        // the last line could not be written
  uint64_t num_lost_in_turn = 0;  // records since then

  mutable std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<RequestRecord> waiting;
  size_t waiting_bytes = 0;  // of `waiting`
  uint64_t num_overflowed = 0;
  bool is_ending = false;
  bool has_given_up = false;
  LogCounts counts;
};

/// An exception, such as lack of memory, must not end the engine.
void LogWriter::Shared::give_up(std::string_view reason) {
  tell(fmt::format("has ended: {}. The engine goes on; restart it to log again.", reason));
  const std::lock_guard lock(mutex);
  has_given_up = true;
  counts.num_dropped += waiting.size();
  waiting.clear();
}

/// Appends a line. After a failed write, the next line first ends the incomplete one.
bool LogWriter::Shared::write_line(const std::string& line) {
  const std::string text = has_open_line ? "\n" + line : line;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file.number(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      note_failure(written < 0 ? errno : ENOSPC);
      break;
    }
    done += static_cast<size_t>(written);
  }
  if (done > 0) has_open_line = done < text.size();
  const std::lock_guard lock(mutex);
  counts.num_bytes += done;
  return done == text.size();
}

void LogWriter::Shared::note_failure(int error) {
  if (std::exchange(is_failing, true)) return;
  tell(fmt::format(
      "cannot be written: {}. The engine goes on, and tries again with each answer; answers until "
      "then are not in the log.",
      reason_of(error)));
}

void LogWriter::Shared::write_record(const RequestRecord& record) {
  if (!engine_line.empty() && write_line(engine_line)) engine_line.clear();
  const bool is_written = engine_line.empty() && write_line(record_line(to_json(record)));
  if (!is_written) ++num_lost_in_turn;
  if (is_written && std::exchange(is_failing, false)) {
    tell(fmt::format("can be written again; {} answers are missing",
                     std::exchange(num_lost_in_turn, 0)));
  }
  const std::lock_guard lock(mutex);
  ++(is_written ? counts.num_written : counts.num_dropped);
}

void LogWriter::Shared::run() {
  make_this_thread_patient(kMoreNiceness);
  Json about = {{"kind", "engine"}, {"engine", engine}};
  about.update(options.describe_engine());
  engine_line = record_line(about);
  char last = '\n';
  const off_t end = ::lseek(file.number(), 0, SEEK_END);
  // If the last byte is not a line end, a process died while it wrote.
  has_open_line = end > 0 && ::pread(file.number(), &last, 1, end - 1) == 1 && last != '\n';
  if (write_line(engine_line)) engine_line.clear();
  bool has_told_overflow = false;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return !waiting.empty() || is_ending; });
    if (waiting.empty()) return;
    const RequestRecord record = std::move(waiting.front());
    waiting.pop_front();
    waiting_bytes -= bytes_of(record);
    const bool has_overflow = num_overflowed > 0;
    lock.unlock();
    if (has_overflow && !std::exchange(has_told_overflow, true)) {
      tell("the disk is too slow, so answers were left out of the log");
    }
    write_record(record);
    lock.lock();
  }
}

LogWriter::LogWriter(Descriptor file, LogWriterOptions options)
    : shared_(std::make_unique<Shared>()) {
  shared_->file = std::move(file);
  shared_->options = std::move(options);
  thread_ = std::thread([shared = shared_.get()] {
    // The other threads handle signals.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    try {
      shared->run();
    } catch (const std::exception& error) {
      shared->give_up(error.what());
    }
  });
}

LogWriter::~LogWriter() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_ending = true;
  }
  shared_->changed.notify_one();
  thread_.join();
}

void LogWriter::append(RequestRecord&& record) {
  record.engine = shared_->engine;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->has_given_up ||
        shared_->waiting_bytes + bytes_of(record) > shared_->options.max_waiting_bytes) {
      ++shared_->num_overflowed;
      ++shared_->counts.num_dropped;
      return;
    }
    shared_->waiting_bytes += bytes_of(record);
    shared_->waiting.push_back(std::move(record));
  }
  shared_->changed.notify_one();
}

LogCounts LogWriter::counts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->counts;
}

}  // namespace reprise::replay_log
