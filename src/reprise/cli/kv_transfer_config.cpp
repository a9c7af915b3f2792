#include "reprise/cli/kv_transfer_config.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/config_field.h"

namespace reprise::cli {
namespace {

using kv_cache::KvConnector;
using kv_cache::KvLoadFailurePolicy;
using kv_cache::KvRole;
using kv_cache::KvTransferConfig;

constexpr auto kRoles = std::to_array<std::string_view>({"kv_producer", "kv_consumer", "kv_both"});
constexpr auto kPolicies = std::to_array<std::string_view>({"fail", "recompute"});
constexpr auto kConnectors =
    std::to_array<std::string_view>({"TcpConnector", "SharedMemoryConnector"});
constexpr auto kDevices = std::to_array<std::string_view>({"cpu"});
constexpr auto kFields = std::to_array<std::string_view>({"kv_connector",
                                                          "engine_id",
                                                          "kv_role",
                                                          "kv_ip",
                                                          "kv_port",
                                                          "kv_buffer_size",
                                                          "kv_buffer_device",
                                                          "kv_connector_extra_config",
                                                          "kv_load_failure_policy"});
constexpr auto kExtraFields =
    std::to_array<std::string_view>({"peers", "keep_seconds", "timeout_seconds"});

constexpr int64_t kMostBytes = int64_t{1} << 46;
constexpr int64_t kMostSeconds = 86'400;

KvConnector connector_of(const ConfigField& field) {
  if (field.value.is_null()) return KvConnector::none;
  if (field.value == kConnectors[0]) return KvConnector::tcp;
  if (field.value == kConnectors[1]) return KvConnector::shared_memory;
  field.refuse(
      "TcpConnector or SharedMemoryConnector (requests carry the same kv_transfer_params as with "
      "vLLM's NixlConnector, so its proxies and routers work)");
}

std::vector<std::string> peers_of(const ConfigField& field) {
  if (!field.value.is_array()) field.refuse("a list of host names and addresses, or [\"*\"]");
  std::vector<std::string> peers;
  for (const Json& peer : field.value) {
    peers.push_back(ConfigField{.flag = field.flag, .name = field.name, .value = peer}.text());
  }
  return peers;
}

void assign_extra(KvTransferConfig& config, const ConfigField& field) {
  if (field.name == "peers") {
    config.peers = peers_of(field);
  } else if (field.name == "keep_seconds") {
    config.keep_time = std::chrono::seconds(field.number(1, kMostSeconds));
  } else if (field.name == "timeout_seconds") {
    config.timeout = std::chrono::seconds(field.number(1, kMostSeconds));
  } else {
    field.refuse_name(kExtraFields);
  }
}

void assign(KvTransferConfig& config, const ConfigField& field) {
  if (field.name == "kv_connector") {
    config.connector = connector_of(field);
  } else if (field.name == "engine_id") {
    config.engine_id = field.value.is_null() ? "" : field.text();
  } else if (field.name == "kv_role") {
    config.role = static_cast<KvRole>(field.one_of(kRoles));
  } else if (field.name == "kv_ip") {
    config.kv_ip = field.text();
  } else if (field.name == "kv_port") {
    config.kv_port = static_cast<int32_t>(field.number(0, 65'535));
  } else if (field.name == "kv_buffer_size") {
    config.kv_buffer_size = field.number(0, kMostBytes);
  } else if (field.name == "kv_buffer_device") {
    (void)field.one_of(kDevices);
  } else if (field.name == "kv_load_failure_policy") {
    config.load_failure_policy = static_cast<KvLoadFailurePolicy>(field.one_of(kPolicies));
  } else if (field.name == "kv_connector_extra_config") {
    if (!field.value.is_object()) field.refuse("a JSON object");
    for (const auto& [name, value] : field.value.items()) {
      assign_extra(config, {.flag = field.flag, .name = name, .value = value});
    }
  } else if (constexpr std::string_view kExtra = "kv_connector_extra_config.";
             field.name.starts_with(kExtra)) {
    assign_extra(
        config,
        {.flag = field.flag, .name = field.name.substr(kExtra.size()), .value = field.value});
  } else {
    field.refuse_name(kFields);
  }
}

Json to_json(const KvTransferConfig& config) {
  const auto connector = static_cast<size_t>(config.connector);
  return {{"kv_connector", config.is_on() ? Json(kConnectors[connector - 1]) : Json(nullptr)},
          {"engine_id", config.engine_id.empty() ? Json(nullptr) : Json(config.engine_id)},
          {"kv_role", kRoles[static_cast<size_t>(config.role)]},
          {"kv_ip", config.kv_ip},
          {"kv_port", config.kv_port},
          {"kv_buffer_size", config.kv_buffer_size},
          {"kv_load_failure_policy", kPolicies[static_cast<size_t>(config.load_failure_policy)]},
          {"kv_connector_extra_config",
           {{"peers", config.peers},
            {"keep_seconds", config.keep_time.count()},
            {"timeout_seconds", config.timeout.count()}}}};
}

}  // namespace

void add_kv_transfer_config(OptionTable& table, KvTransferConfig& config) {
  table.add(json_config_option(
      {.name = "kv-transfer-config",
       .group = "Cache: transfer",
       .help = "Computes prompts for other engines, or continues theirs (kv_connector, kv_role, "
               "kv_ip, kv_port, ...).",
       .default_text = "no transfer",
       .example = R"({"kv_connector": "TcpConnector", "kv_role": "kv_producer"})"},
      [&config](const ConfigField& field) { assign(config, field); },
      [&config] { return to_json(config); }));
}

void check_kv_transfer_config(const KvTransferConfig& config) {
  // What the defaults are, without a connector.
  const KvTransferConfig defaults;
  if (config.is_on() || (config.role == defaults.role && config.kv_port == defaults.kv_port &&
                         config.kv_ip == defaults.kv_ip)) {
    return;
  }
  throw InvalidArgument(
      "--kv-transfer-config: without a kv_connector nothing is exchanged; add TcpConnector or "
      "SharedMemoryConnector, or leave the option out");
}

}  // namespace reprise::cli
