#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "reprise/base/disk_steps.h"
#include "reprise/base/json.h"
#include "reprise/replay_log/log_counts.h"
#include "reprise/replay_log/request_record.h"

namespace reprise::replay_log {

/// Opens a log to which records are appended; a new file can be read by its owner only.
/// \throws InvalidArgument if it cannot be opened, or if it is neither a file nor a device
[[nodiscard]] Descriptor open_log(const std::filesystem::path& path);
/// A warning if other users may read the file; otherwise empty.
[[nodiscard]] std::string privacy_warning(const std::filesystem::path& path);

struct LogWriterOptions {
  std::filesystem::path path;  // for messages
  /// The members of the record that describes the engine. The writer's thread calls it once, so it
  /// may read files.
  std::function<Json()> describe_engine;
  std::function<void(std::string_view)> log;  // gets a line for people, on the writer's thread
  /// The bytes of records that may wait for the disk. Above this limit further records are dropped.
  size_t max_waiting_bytes = size_t{64} << 20;
};

/// Writes the record of an engine and those of its requests from its own thread, so that a step
/// never waits for a disk. A file that cannot be written costs records and nothing else: one line
/// of the log says so, each further record is tried again, and a half-written line is closed before
/// the next one. Several engines may append to one file: each record names its engine. Thread-safe.
class LogWriter {
 public:
  LogWriter(Descriptor file, LogWriterOptions options);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  /// Writes the waiting records, and joins the thread.
  ~LogWriter();

  /// Sets record.engine and queues the record. Never waits for the disk.
  void append(RequestRecord&& record);
  [[nodiscard]] LogCounts counts() const;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::thread thread_;  // last: it uses `shared_`
};

}  // namespace reprise::replay_log
