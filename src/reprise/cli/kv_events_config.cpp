#include "reprise/cli/kv_events_config.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/nearest_name.h"
#include "reprise/cli/environment.h"

namespace reprise::cli {
namespace {

using kv_cache::KvEventEncoding;
using kv_cache::KvEventsConfig;

constexpr std::string_view kKvEvents = "--kv-events-config";
constexpr auto kKvEventFields = std::to_array<std::string_view>({"enable_kv_cache_events",
                                                                 "publisher",
                                                                 "endpoint",
                                                                 "replay_endpoint",
                                                                 "buffer_steps",
                                                                 "hwm",
                                                                 "max_queue_size",
                                                                 "topic",
                                                                 "encoding"});

[[noreturn]] void refuse_field(std::string_view field, std::string_view expected, const Json& got) {
  throw InvalidArgument(
      fmt::format("{}: {} is {}, got {}", kKvEvents, field, expected, got.dump()));
}

std::string text_of(std::string_view field, const Json& value) {
  if (!value.is_string()) refuse_field(field, "a text", value);
  return value.get<std::string>();
}

std::string endpoint_of(std::string_view field, const Json& value) {
  std::string endpoint = text_of(field, value);
  for (const std::string_view scheme : {"tcp://", "ipc://", "inproc://"}) {
    if (endpoint.starts_with(scheme) && endpoint.size() > scheme.size()) return endpoint;
  }
  refuse_field(field, "an address such as tcp://*:5557 or ipc:///run/reprise/events", value);
}

int32_t count_of(std::string_view field, const Json& value, int least) {
  constexpr int kMost = 100'000'000;
  if (!value.is_number_integer() || value < least || value > kMost) {
    refuse_field(field, fmt::format("a number from {} to {}", least, kMost), value);
  }
  return value.get<int32_t>();
}

/// One of the two words of a field.
bool is_first_of(std::string_view field,
                 const Json& value,
                 std::string_view first,
                 std::string_view second) {
  if (value == first) return true;
  if (value == second) return false;
  refuse_field(field, fmt::format("\"{}\" or \"{}\"", first, second), value);
}

void assign_kv_event_field(KvEventsConfig& config, std::string_view field, const Json& value) {
  if (field == "enable_kv_cache_events") {
    if (!value.is_boolean()) refuse_field(field, "true or false", value);
    config.enable_kv_cache_events = value.get<bool>();
  } else if (field == "publisher") {
    const bool is_zmq = value.is_null() || is_first_of(field, value, "zmq", "null");
    config.publisher = is_zmq ? "zmq" : "null";
  } else if (field == "endpoint") {
    config.endpoint = endpoint_of(field, value);
  } else if (field == "replay_endpoint") {
    config.replay_endpoint = value.is_null() ? "" : endpoint_of(field, value);
  } else if (field == "buffer_steps") {
    config.buffer_steps = count_of(field, value, 0);
  } else if (field == "hwm") {
    config.hwm = count_of(field, value, 0);
  } else if (field == "max_queue_size") {
    config.max_queue_size = count_of(field, value, 1);
  } else if (field == "topic") {
    config.topic = text_of(field, value);
  } else if (field == "encoding") {
    const bool is_map = is_first_of(field, value, "map", "array");
    config.encoding = is_map ? KvEventEncoding::map : KvEventEncoding::array;
  } else {
    throw InvalidArgument(fmt::format(
        "{}: there is no field '{}'{}", kKvEvents, field, did_you_mean(field, kKvEventFields)));
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
  table.add({.name = "kv-events-config",
             .group = "Cache: events",
             .value_name = "JSON",
             .help = "Tells routers by ZeroMQ which prefixes are cached (enable_kv_cache_events, "
                     "endpoint, replay_endpoint, topic, ...).",
             .default_text = "no events",
             .apply =
                 [&config](std::string_view text) {
                   const Json document = parse_json(text, kKvEvents);
                   if (document.is_null()) return;
                   if (!document.is_object()) {
                     throw InvalidArgument(
                         fmt::format("{}: expected a JSON object, got {}", kKvEvents, text));
                   }
                   for (const auto& [field, value] : document.items()) {
                     assign_kv_event_field(config, field, value);
                   }
                 },
             .apply_dotted =
                 [&config](std::string_view path, std::string_view text) {
                   const Json value = Json::parse(text, nullptr, false);
                   assign_kv_event_field(config, path, value.is_discarded() ? Json(text) : value);
                 },
             .merged = [&config] { return to_json(config).dump(); },
             .example = R"({"enable_kv_cache_events": true, "topic": "kv@pod@model"})"});
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
