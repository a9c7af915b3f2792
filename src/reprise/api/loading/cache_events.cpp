#include "reprise/api/loading/cache_events.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/kv_cache/events/kv_event_publisher.h"
#include "reprise/kv_cache/events/kv_event_recorder.h"
#include "reprise/kv_cache/events/zmq_event_sockets.h"
#include "reprise/parallel/communicator.h"

namespace reprise::api {
namespace {

bool is_open_to_other_machines(const std::string& endpoint) {
  return endpoint.starts_with("tcp://") && !endpoint.starts_with("tcp://[::1]:") &&
         (endpoint.find('*') != std::string::npos || endpoint.find("::") != std::string::npos);
}

}  // namespace

void open_event_publisher(LoadedEngine& engine, bool is_caching) {
  const kv_cache::KvEventsConfig& config = engine.args.kv_events;
  // Only rank 0 schedules, so only rank 0 knows which blocks are cached.
  const bool has_scheduler = engine.args.ranks == nullptr || engine.args.ranks->rank() == 0;
  if (!config.publishes() || !has_scheduler) return;
  engine.event_publisher = std::make_unique<kv_cache::KvEventPublisher>(
      config, kv_cache::open_zmq_event_sockets(config));
  engine.event_recorder = std::make_unique<kv_cache::KvEventRecorder>(
      config, [publisher = engine.event_publisher.get()](std::string payload) {
        publisher->publish(std::move(payload));
      });
  std::vector<std::string>& warnings = engine.report.warnings;
  if (!is_caching) {
    warnings.emplace_back(
        "--kv-events-config: this engine caches no prefixes, so there are no events");
  }
  for (const std::string& endpoint : {config.endpoint, config.replay_endpoint}) {
    if (!is_open_to_other_machines(endpoint)) continue;
    warnings.push_back(
        fmt::format("--kv-events-config: whoever can connect to {} can read the tokens of all "
                    "prompts and answers; no key protects this port",
                    endpoint));
  }
}

}  // namespace reprise::api
