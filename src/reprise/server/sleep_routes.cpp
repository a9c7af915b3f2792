#include "reprise/server/sleep_routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/server/http/request_query.h"

namespace reprise::server {
namespace {

/// The value of a query parameter that may be given at most once.
std::string one_value(const HttpRequest& request, const std::string& name, std::string absent) {
  std::vector<std::string> values = query_values(request.query, name);
  if (values.size() > 1)
    throw ApiError(400, fmt::format("{} is given more than once.", name), name);
  return values.empty() ? std::move(absent) : std::move(values[0]);
}

api::SleepLevel read_level(const HttpRequest& request) {
  const std::string level = one_value(request, "level", "1");
  if (level == "0") return api::SleepLevel::pause;
  if (level == "1") return api::SleepLevel::offload;
  if (level == "2") return api::SleepLevel::discard;
  throw ApiError(400, "level must be 0, 1 or 2.", "level");
}

api::SleepMode read_mode(const HttpRequest& request) {
  const std::string mode = one_value(request, "mode", "abort");
  if (mode == "abort") return api::SleepMode::abort;
  if (mode == "wait") return api::SleepMode::wait;
  if (mode == "keep") {
    throw ApiError(
        400, "mode keep is not supported: requests lose their cache. Use abort or wait.", "mode");
  }
  throw ApiError(400, "mode must be abort or wait.", "mode");
}

void wake_up(api::AsyncEngine& engine, api::EngineParts parts) {
  try {
    engine.wake_up(parts);
  } catch (const InvalidArgument& error) {
    throw Error(error.what());  // a bad file is not an error of the client
  }
}

}  // namespace

void add_sleep_routes(Router& router,
                      api::AsyncEngine& engine,
                      const GenerationService& generations,
                      const Log& log) {
  // The service may be checked only on the I/O thread; waiting for the engine happens on another
  // thread.
  const auto check_health = [&generations](const HttpRequest&, const ExchangeRef&) {
    generations.check_health();
  };
  router.add({.method = "POST",
              .path = "/sleep",
              .query = {{"level",
                         R"({"enum": [0, 1, 2], "default": 1})",
                         "0 pauses, 1 gives the KV cache back and moves weights to the host, 2 "
                         "gives weights back too."},
                        {"mode",
                         R"({"enum": ["abort", "wait"], "default": "abort"})",
                         "What happens to running requests."}},
              .answer_types = {},
              .summary = "Gives memory back until /wake_up; requests that come meanwhile wait.",
              .handle = check_health,
              .prepare = [&engine, &log](const HttpRequest& request) -> Answering {
                const api::SleepLevel level = read_level(request);
                engine.sleep(level, read_mode(request));
                log.info(fmt::format("Asleep at level {}", static_cast<int>(level)));
                return answer_empty;
              },
              .waits_for_engine = true});
  router.add(
      {.method = "POST",
       .path = "/wake_up",
       .query = {{"tags",
                  R"({"type": "array", "items": {"enum": ["weights", "kv_cache", "scheduling"]}})",
                  "Parts that wake up; absent: all of them."}},
       .answer_types = {},
       .summary = "Ends a sleep, or a part of it.",
       .handle = check_health,
       .prepare = [&engine, &log](const HttpRequest& request) -> Answering {
         const std::vector<std::string> tags = query_values(request.query, "tags");
         wake_up(engine, api::parse_engine_parts(tags));
         log.info(engine.is_sleeping() ? fmt::format("{} awake", fmt::join(tags, ", "))
                                       : std::string("Awake"));
         return answer_empty;
       },
       .waits_for_engine = true});
  router.add({.method = "GET",
              .path = "/is_sleeping",
              .summary = "Whether a sleep has begun that has not ended.",
              .handle = [&engine](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump({{"is_sleeping", engine.is_sleeping()}})});
              }});
}

}  // namespace reprise::server
