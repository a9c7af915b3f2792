#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/graph_profile.h"

namespace reprise::api {

struct GraphMicroscopeOptions {
  int32_t num_replays = 20;
  // See runner::GraphProfilerOptions.
  std::optional<int32_t> context_len;
  std::optional<int32_t> num_reqs;
};

/// Describes the engine for a profile.
[[nodiscard]] Json describe_for_profile(const LoadedEngine& engine);

/// \throws InvalidArgument if the graphs of such an engine cannot be replayed alone
void require_profilable(const EngineArgs& args);
/// The same check when the model is known.
void require_profilable(const LoadedEngine& engine);

/// An engine of its own, without requests, whose captured graphs are looked into. One thread at a
/// time.
class GraphMicroscope {
 public:
  /// Loads the model and captures its graphs.
  /// \throws InvalidArgument if such an engine's graphs cannot be replayed alone or if it has none;
  /// otherwise as load_engine()
  GraphMicroscope(const EngineArgs& args,
                  const GraphMicroscopeOptions& options,
                  const StartupObserver& observer = {});
  GraphMicroscope(const GraphMicroscope&) = delete;
  GraphMicroscope& operator=(const GraphMicroscope&) = delete;
  ~GraphMicroscope();

  /// The captured keys, in the order of the capture plan.
  [[nodiscard]] const std::vector<cudagraph::PlannedKey>& keys() const noexcept { return keys_; }
  [[nodiscard]] const StartupReport& report() const noexcept { return engine_->report; }

  /// From now on, steps of keys that leave the number of requests open have `num_reqs` requests.
  void use_num_reqs(std::optional<int32_t> num_reqs) noexcept { options_.num_reqs = num_reqs; }

  /// Times a key and each of its nodes. \pre one of keys(). \throws InvalidArgument if the context
  /// does not fit into the cache
  [[nodiscard]] runner::GraphProfile profile(const cudagraph::PlannedKey& key);
  /// Times keys as a whole. \throws as profile()
  [[nodiscard]] runner::GraphProfile measure_whole(const cudagraph::PlannedKey& key);

 private:
  GraphMicroscopeOptions options_;
  std::unique_ptr<LoadedEngine> engine_;
  std::vector<cudagraph::PlannedKey> keys_;
  std::optional<std::optional<double>> memory_gb_s_;  // nothing: not measured yet
};

}  // namespace reprise::api
