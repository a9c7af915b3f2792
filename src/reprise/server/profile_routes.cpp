#include "reprise/server/profile_routes.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <utility>

namespace reprise::server {
namespace {

/// Each profile is a file, and clients should not fill the disk of the server.
constexpr int kMaxProfiles = 100;

/// Adds a route that waits for the engine in `act`, then answers with an empty body.
void add(Router& router,
         const ProfilerOptions& options,
         std::string path,
         std::string summary,
         std::function<void()> act) {
  Route route{.method = "POST",
              .path = std::move(path),
              .answer_types = {},
              .summary = std::move(summary),
              .waits_for_engine = true,
              .is_described = !options.folder.empty()};
  route.prepare = [act = std::move(act), is_on = route.is_described](const HttpRequest&) {
    if (!is_on) {
      throw ApiError(404,
                     "Profiling is off: the server has no folder for traces. Start it with "
                     "--profiler-config.torch_profiler_dir DIR, or with VLLM_TORCH_PROFILER_DIR.");
    }
    act();
    return answer_empty;
  };
  router.add(std::move(route));
}

}  // namespace

void add_profile_routes(Router& router,
                        api::AsyncEngine& engine,
                        const ProfilerOptions& options,
                        const Log& log) {
  add(router,
      options,
      "/start_profile",
      "Records steps of the engine from now on; 409 while that is done already.",
      [&engine, steps = options.steps, num_begun = std::make_shared<std::atomic<int>>(0)] {
        if (*num_begun >= kMaxProfiles) {
          throw ApiError(409,
                         fmt::format("This server has begun {} profiles, as many as it writes; "
                                     "start it again for more.",
                                     kMaxProfiles));
        }
        if (!engine.start_profile(steps)) {
          throw ApiError(409, "A profile is being recorded; /stop_profile ends it.");
        }
        ++*num_begun;
      });
  add(router,
      options,
      "/stop_profile",
      "Writes the recorded steps as a trace for Perfetto; 409 when none are recorded.",
      [&engine, &log, folder = options.folder] {
        const auto path = engine.stop_profile(folder);
        if (!path) throw ApiError(409, "No profile is being recorded; /start_profile begins one.");
        log.info(fmt::format("Profile written to {}", path->string()));
      });
}

}  // namespace reprise::server
