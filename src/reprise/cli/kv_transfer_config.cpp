#include "reprise/cli/kv_transfer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/config_field.h"
#include "reprise/cli/environment.h"

namespace reprise::cli {
namespace {

using kv_cache::KvConnector;
using kv_cache::KvLoadFailurePolicy;
using kv_cache::KvPeer;
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
    std::to_array<std::string_view>({"peers", "secret_file", "keep_seconds", "timeout_seconds"});
/// A shorter secret could be guessed.
constexpr size_t kLeastSecretBytes = 16;
constexpr size_t kMostSecretBytes = 4096;

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

/// HOST, HOST:PORT, [IPV6]:PORT; "*" for any host or any port.
KvPeer peer_of(const ConfigField& field, const std::string& text) {
  const auto refuse = [&field] {
    field.refuse("a list of HOST:PORT, such as [\"10.0.0.1:14579\", \"*:14579\"]");
  };
  std::string_view host = text;
  std::string_view port;
  const size_t end_of_host = text.starts_with('[') ? text.find(']') : 0;
  if (end_of_host == std::string::npos) refuse();
  const size_t colon = text.find(':', end_of_host);
  // An address of IPv6 without brackets has no port.
  if (colon != std::string::npos && (end_of_host > 0 || colon == text.rfind(':'))) {
    host = host.substr(0, colon);
    port = std::string_view(text).substr(colon + 1);
    if (port.empty()) refuse();
  }
  if (host.starts_with('[')) host = host.substr(1, end_of_host - 1);
  if (host.empty()) refuse();
  KvPeer peer{.host = std::string(host), .port = {}};
  if (port == "*") {
    peer.port = 0;
  } else if (!port.empty()) {
    int32_t number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65'535) {
      refuse();
    }
    peer.port = number;
  }
  return peer;
}

std::vector<KvPeer> peers_of(const ConfigField& field) {
  if (!field.value.is_array()) field.refuse("a list of HOST:PORT");
  std::vector<KvPeer> peers;
  for (const Json& peer : field.value) {
    const ConfigField item{.flag = field.flag, .name = field.name, .value = peer};
    peers.push_back(peer_of(item, item.text()));
  }
  return peers;
}

std::string text_of(const KvPeer& peer) {
  const std::string host =
      peer.host.find(':') == std::string::npos ? peer.host : fmt::format("[{}]", peer.host);
  if (!peer.port) return peer.host;
  return *peer.port == 0 ? host + ":*" : fmt::format("{}:{}", host, *peer.port);
}

std::string checked_secret(std::string_view from, std::string secret) {
  if (secret.size() < kLeastSecretBytes || secret.size() > kMostSecretBytes) {
    throw InvalidArgument(
        fmt::format("--kv-transfer-config: the secret of {} has {} bytes; expected {}..{}, for "
                    "example those of `openssl rand -hex 32`",
                    from,
                    secret.size(),
                    kLeastSecretBytes,
                    kMostSecretBytes));
  }
  return secret;
}

std::string secret_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostSecretBytes + 2, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty()) {
    throw InvalidArgument(
        fmt::format("--kv-transfer-config: secret_file {} cannot be read, or is empty", path));
  }
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

void assign_extra(KvTransferConfig& config, const ConfigField& field) {
  if (field.name == "peers") {
    config.peers = peers_of(field);
  } else if (field.name == "secret_file") {
    if (field.value.is_null()) return;
    config.secret_file = field.text();
    config.secret = checked_secret("secret_file", secret_of_file(config.secret_file));
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
  Json peers = Json::array();
  for (const KvPeer& peer : config.peers) peers.push_back(text_of(peer));
  return {{"kv_connector", config.is_on() ? Json(kConnectors[connector - 1]) : Json(nullptr)},
          {"engine_id", config.engine_id.empty() ? Json(nullptr) : Json(config.engine_id)},
          {"kv_role", kRoles[static_cast<size_t>(config.role)]},
          {"kv_ip", config.kv_ip},
          {"kv_port", config.kv_port},
          {"kv_buffer_size", config.kv_buffer_size},
          {"kv_load_failure_policy", kPolicies[static_cast<size_t>(config.load_failure_policy)]},
          {"kv_connector_extra_config",
           {{"peers", std::move(peers)},
            {"secret_file", config.secret_file.empty() ? Json(nullptr) : Json(config.secret_file)},
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

void read_kv_transfer_environment(KvTransferConfig& config) {
  std::optional<std::string> secret = look_up_process_environment("REPRISE_KV_TRANSFER_SECRET");
  if (secret && config.secret.empty())
    config.secret = checked_secret("REPRISE_KV_TRANSFER_SECRET", *std::move(secret));
}

void check_kv_transfer_config(const KvTransferConfig& config) {
  const bool names_all_ports =
      std::ranges::all_of(config.peers, [](const KvPeer& peer) { return peer.port.has_value(); });
  if (config.is_on() && config.role == KvRole::consumer && config.kv_port == 0 &&
      !names_all_ports) {
    throw InvalidArgument(
        "--kv-transfer-config: kv_port is 0, so peers of a kv_consumer have no port; give peers "
        "as HOST:PORT, or the kv_port of the producers");
  }
  // The values of members that are not given, when no connector is chosen.
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
