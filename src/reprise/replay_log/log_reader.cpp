#include "reprise/replay_log/log_reader.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/replay_log/record_line.h"

namespace reprise::replay_log {
namespace {

constexpr const char* kCode = "E_REPLAY_LOG";

/// \throws InvalidArgument, Json::exception
void add_record(const std::string& line, LogContent& log) {
  Json json = read_record_line(line);
  const auto kind = json.at("kind").get<std::string>();
  if (kind == "engine") {
    auto engine = json.at("engine").get<std::string>();
    log.engines.insert_or_assign(std::move(engine), std::move(json));
  } else if (kind == "request") {
    log.requests.push_back(read_request_record(json));
  } else {
    throw InvalidArgument(fmt::format("the kind '{}' is unknown", kind));
  }
}

}  // namespace

LogContent read_log(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw FileError(kCode, path.string(), "", "cannot be read; name a file of --replay-log");
  }
  LogContent log;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    try {
      add_record(line, log);
    } catch (const std::exception& error) {
      log.problems.push_back(fmt::format("line {} is left out: {}", number, error.what()));
    }
  }
  if (log.engines.empty()) {
    throw FileError(kCode,
                    path.string(),
                    "",
                    log.problems.empty() ? "has no records; name a file of --replay-log"
                                         : "no line describes an engine: " + log.problems.front());
  }
  std::erase_if(log.requests, [&log](const RequestRecord& request) {
    if (log.engines.contains(request.engine)) return false;
    log.problems.push_back(
        fmt::format("request {} is left out: the line of its engine {} is missing or damaged",
                    request.id,
                    request.engine));
    return true;
  });
  return log;
}

}  // namespace reprise::replay_log
