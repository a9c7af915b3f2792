#pragma once

#include <filesystem>
#include <optional>

#include "reprise/base/log.h"

namespace reprise::cli {

/// The settings in a file of --log-config-file, which is JSON for Python's
/// logging.config.dictConfig, as vLLM reads it. What the file does not set keeps its usual value.
struct LogConfig {
  std::optional<LogLevel> level;         // of the loggers "reprise" and "vllm", else of the root
  std::optional<LogLevel> server_level;  // of "uvicorn" and "uvicorn.error"
  std::optional<LogLevel> access_level;  // of "uvicorn.access"
  std::optional<LogForm> form;           // of the formatter
  enum class Target : uint8_t {
    standard_error,
    standard_output,
    file
  } target = Target::standard_error;
  std::filesystem::path file;
  bool appends = true;  // new lines are appended to the file; otherwise its old content is dropped
};

/// Reads the parts that this program can honour: one formatter (plain text or JSON), one handler (a
/// stream or a file) and the levels of its loggers. \throws InvalidArgument naming the member of
/// the file that it cannot honour
[[nodiscard]] LogConfig read_log_config(const std::filesystem::path& path);

}  // namespace reprise::cli
