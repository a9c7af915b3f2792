#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/base/json.h"
#include "reprise/server/config_reload.h"

namespace reprise::cli {

/// The configuration of a command: its options as text, and the values that they give the engine.
struct ReadConfiguration {
  Json options;  // Configuration::to_line()
  api::EngineArgs engine;
};

/// Compares the configuration of a running server with what its sources say now. One thread at a
/// time.
class ConfigReload {
 public:
  /// `read_again` reads all sources again, also the file. \pre while no source changes, it returns
  /// the same as `now`
  ConfigReload(ReadConfiguration now, std::function<ReadConfiguration()> read_again);

  /// What has changed since the last result that was accepted. A change that needs a restart is
  /// named each time. \throws InvalidArgument, FileError as the start would
  [[nodiscard]] server::ReloadedConfig read();

 private:
  ReadConfiguration start_;
  api::EngineArgs accepted_;
  std::function<ReadConfiguration()> read_again_;
};

}  // namespace reprise::cli
