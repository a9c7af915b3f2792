#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/base/json.h"
#include "reprise/server/config_reload.h"

namespace reprise::cli {

/// The configuration of a command: its options as text, and what the engine gets of them.
struct ReadConfiguration {
  Json options;  // Configuration::to_line()
  api::EngineArgs engine;
};

/// Compares the configuration of a running server with what its sources say now. One thread at a
/// time.
class ConfigReload {
 public:
  /// `read_again` reads all sources, the file too. \pre it gives what `now` is, as long as no
  /// source changes
  ConfigReload(ReadConfiguration now, std::function<ReadConfiguration()> read_again);

  /// What has changed since the last result that was accepted. What needs a restart is named each
  /// time. \throws InvalidArgument, FileError as the start would
  [[nodiscard]] server::ReloadedConfig read();

 private:
  ReadConfiguration start_;
  api::EngineArgs accepted_;
  std::function<ReadConfiguration()> read_again_;
};

}  // namespace reprise::cli
