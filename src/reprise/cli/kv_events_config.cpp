#include "reprise/cli/kv_events_config.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/cli/config_field.h"
#include "reprise/cli/environment.h"

namespace reprise::cli {
namespace {

using kv_cache::KvEventEncoding;
using kv_cache::KvEventsConfig;

constexpr auto kPublishers = std::to_array<std::string_view>({"zmq", "null"});
constexpr auto kEncodings = std::to_array<std::string_view>({"map", "array"});
constexpr auto kKvEventFields = std::to_array<std::string_view>({"enable_kv_cache_events",
                                                                 "publisher",
                                                                 "endpoint",
                                                                 "replay_endpoint",
                                                                 "buffer_steps",
                                                                 "hwm",
                                                                 "max_queue_size",
                                                                 "topic",
                                                                 "encoding"});

std::string endpoint_of(const ConfigField& field) {
  std::string endpoint = field.text();
  for (const std::string_view scheme : {"tcp://", "ipc://", "inproc://"}) {
    if (endpoint.starts_with(scheme) && endpoint.size() > scheme.size()) return endpoint;
  }
  field.refuse("an address such as tcp://*:5557 or ipc:///run/reprise/events");
}

int32_t count_of(const ConfigField& field, int64_t least) {
  constexpr int64_t kMost = 100'000'000;
  return static_cast<int32_t>(field.number(least, kMost));
}

void assign_kv_event_field(KvEventsConfig& config, const ConfigField& field) {
  if (field.name == "enable_kv_cache_events") {
    config.enable_kv_cache_events = field.boolean();
  } else if (field.name == "publisher") {
    const bool is_zmq = field.value.is_null() || field.one_of(kPublishers) == 0;
    config.publisher = is_zmq ? "zmq" : "null";
  } else if (field.name == "endpoint") {
    config.endpoint = endpoint_of(field);
  } else if (field.name == "replay_endpoint") {
    config.replay_endpoint = field.value.is_null() ? "" : endpoint_of(field);
  } else if (field.name == "buffer_steps") {
    config.buffer_steps = count_of(field, 0);
  } else if (field.name == "hwm") {
    config.hwm = count_of(field, 0);
  } else if (field.name == "max_queue_size") {
    config.max_queue_size = count_of(field, 1);
  } else if (field.name == "topic") {
    config.topic = field.text();
  } else if (field.name == "encoding") {
    config.encoding = field.one_of(kEncodings) == 0 ? KvEventEncoding::map : KvEventEncoding::array;
  } else {
    field.refuse_name(kKvEventFields);
  }
}

Json to_json(const KvEventsConfig& config) {
  return {{"enable_kv_cache_events", config.enable_kv_cache_events},
          {"publisher", config.publisher},
          {"endpoint", config.endpoint},
          {"replay_endpoint",
           config.replay_endpoint.empty() ? Json(nullptr) : Json(config.replay_endpoint)},
          {"buffer_steps", config.buffer_steps},
          {"hwm", config.hwm},
          {"max_queue_size", config.max_queue_size},
          {"topic", config.topic},
          {"encoding", config.encoding == KvEventEncoding::map ? "map" : "array"}};
}

}  // namespace

void add_kv_events_config(OptionTable& table, KvEventsConfig& config) {
  table.add(json_config_option(
      {.name = "kv-events-config",
       .group = "Cache: events",
       .help = "Tells routers by ZeroMQ which prefixes are cached (enable_kv_cache_events, "
               "endpoint, replay_endpoint, topic, ...).",
       .default_text = "no events",
       .example = R"({"enable_kv_cache_events": true, "topic": "kv@pod@model"})"},
      [&config](const ConfigField& field) { assign_kv_event_field(config, field); },
      [&config] { return to_json(config); }));
}

void read_kv_events_environment(KvEventsConfig& config) {
  const std::string value =
      look_up_process_environment("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES").value_or("1");
  if (value != "0" && value != "1") {
    throw InvalidArgument(
        fmt::format("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: expected 0 or 1, got {}", value));
  }
  config.use_int_block_hashes = value == "1";
}

}  // namespace reprise::cli
