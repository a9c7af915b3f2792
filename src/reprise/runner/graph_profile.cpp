#include "reprise/runner/graph_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "reprise/base/error.h"

namespace reprise::runner {
namespace {

constexpr std::string_view kProfileFormat = "reprise graph profile";
constexpr int kProfileVersion = 1;

std::optional<int32_t> number_in(std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Json spread_json(const TimeSpread& spread) {
  return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
}

TimeSpread spread_from(const Json& json) {
  return {.median = json.at("median").get<double>(),
          .low = json.at("low").get<double>(),
          .high = json.at("high").get<double>()};
}

std::optional<TimeSpread> optional_spread(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return spread_from(json);
}

Json node_json(const ProfiledNode& node) {
  Json memory = Json::array();
  for (const NodeMemory& used : node.memory) {
    memory.push_back({{"name", used.name},
                      {"bytes", used.bytes},
                      {"reads", used.reads},
                      {"writes", used.writes},
                      {"is_at_most", used.is_at_most}});
  }
  Json json = {{"kernel", node.kernel},
               {"op", node.op},
               {"layer", nullptr},
               {"weight", node.weight},
               {"num_blocks", node.num_blocks},
               {"is_captured", node.is_captured},
               {"waits_for_previous", node.waits_for_previous},
               {"tells_uses", node.tells_uses},
               {"bytes_read", node.bytes_read()},
               {"bytes_written", node.bytes_written()},
               {"memory", std::move(memory)},
               {"in_place_us", nullptr},
               {"alone_us", nullptr}};
  if (node.layer) json["layer"] = *node.layer;
  if (node.in_place) json["in_place_us"] = spread_json(*node.in_place);
  if (node.alone) json["alone_us"] = spread_json(*node.alone);
  return json;
}

ProfiledNode node_from(const Json& json) {
  ProfiledNode node{.kernel = json.at("kernel").get<std::string>(),
                    .op = json.at("op").get<std::string>(),
                    .layer = std::nullopt,
                    .weight = json.at("weight").get<std::string>(),
                    .num_blocks = json.at("num_blocks").get<uint32_t>(),
                    .is_captured = json.at("is_captured").get<bool>(),
                    .waits_for_previous = json.at("waits_for_previous").get<bool>(),
                    .tells_uses = json.at("tells_uses").get<bool>(),
                    .memory = {},
                    .in_place = optional_spread(json.at("in_place_us")),
                    .alone = optional_spread(json.at("alone_us"))};
  if (!json.at("layer").is_null()) node.layer = json.at("layer").get<int32_t>();
  for (const Json& used : json.at("memory")) {
    node.memory.push_back({.name = used.at("name").get<std::string>(),
                           .bytes = used.at("bytes").get<uint64_t>(),
                           .reads = used.at("reads").get<bool>(),
                           .writes = used.at("writes").get<bool>(),
                           .is_at_most = used.at("is_at_most").get<bool>()});
  }
  return node;
}

cudagraph::CudagraphRuntimeMode mode_from(const std::string& text) {
  for (const auto mode : {cudagraph::CudagraphRuntimeMode::NONE,
                          cudagraph::CudagraphRuntimeMode::PIECEWISE,
                          cudagraph::CudagraphRuntimeMode::FULL}) {
    if (text == to_string(mode)) return mode;
  }
  throw InvalidArgument(fmt::format("'{}' is no runtime mode", text));
}

GraphProfile read_profile(const Json& json) {
  const Json& key = json.at("key");
  const Json& batch = json.at("batch");
  const Json& padding = json.at("padding");
  GraphProfile profile;
  profile.engine = json.at("engine");
  profile.mode = mode_from(key.at("runtime_mode").get<std::string>());
  profile.descriptor = {.num_tokens = key.at("num_tokens").get<int32_t>(),
                        .num_reqs = std::nullopt,
                        .uniform = key.at("uniform").get<bool>(),
                        .has_lora = key.at("has_lora").get<bool>(),
                        .num_active_loras = key.at("num_active_loras").get<int32_t>()};
  if (!key.at("num_reqs").is_null()) {
    profile.descriptor.num_reqs = key.at("num_reqs").get<int32_t>();
  }
  batch.at("num_reqs").get_to(profile.num_reqs);
  batch.at("num_tokens").get_to(profile.num_tokens);
  batch.at("context_len").get_to(profile.context_len);
  json.at("num_replays").get_to(profile.num_replays);
  profile.replay = spread_from(json.at("replay_us"));
  profile.eager = spread_from(json.at("eager_us"));
  json.at("why_no_node_times").get_to(profile.why_no_node_times);
  if (!json.at("memory_gb_s").is_null()) {
    profile.memory_gb_s = json.at("memory_gb_s").get<double>();
  }
  profile.padding = {.fewest_tokens = padding.at("fewest_tokens").get<int32_t>(),
                     .most_tokens = padding.at("most_tokens").get<int32_t>(),
                     .mean_share = padding.at("mean_share").get<double>(),
                     .largest_share = padding.at("largest_share").get<double>()};
  for (const Json& node : json.at("nodes")) profile.nodes.push_back(node_from(node));
  return profile;
}

}  // namespace

TimeSpread spread_of(std::vector<double> microseconds) {
  std::ranges::sort(microseconds);
  const size_t count = microseconds.size();
  return {.median = microseconds[count / 2],
          .low = microseconds[count / 4],
          .high = microseconds[count - 1 - count / 4]};
}

uint64_t ProfiledNode::bytes_read() const noexcept {
  uint64_t bytes = 0;
  for (const NodeMemory& used : memory) bytes += used.reads ? used.bytes : 0;
  return bytes;
}

uint64_t ProfiledNode::bytes_written() const noexcept {
  uint64_t bytes = 0;
  for (const NodeMemory& used : memory) bytes += used.writes ? used.bytes : 0;
  return bytes;
}

bool ProfiledNode::is_at_most() const noexcept {
  return std::ranges::any_of(memory, &NodeMemory::is_at_most);
}

uint64_t GraphProfile::bytes_read() const noexcept {
  uint64_t bytes = 0;
  for (const ProfiledNode& node : nodes) bytes += node.bytes_read();
  return bytes;
}

uint64_t GraphProfile::bytes_written() const noexcept {
  uint64_t bytes = 0;
  for (const ProfiledNode& node : nodes) bytes += node.bytes_written();
  return bytes;
}

std::optional<double> GraphProfile::roof_us(uint64_t bytes) const noexcept {
  if (!memory_gb_s) return std::nullopt;
  return static_cast<double>(bytes) / (*memory_gb_s * 1e3);
}

std::string op_of_kernel(std::string_view kernel) {
  // Element types, then instruction sets. The name of an op ends before the first of these.
  constexpr std::array<std::string_view, 14> kVariants = {"f32",
                                                          "bf16",
                                                          "f16",
                                                          "i32",
                                                          "i8",
                                                          "u8",
                                                          "fp8",
                                                          "e4m3",
                                                          "e5m2",
                                                          "scalar",
                                                          "avx2",
                                                          "avx512",
                                                          "amx",
                                                          "cuda"};
  std::string op;
  for (std::string_view rest = kernel; !rest.empty();) {
    const size_t length = std::min(rest.find('_'), rest.size());
    const std::string_view word = rest.substr(0, length);
    if (!op.empty() && std::ranges::find(kVariants, word) != kVariants.end()) break;
    if (!op.empty()) op += '_';
    op += word;
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return op;
}

std::optional<int32_t> layer_of_memory(std::string_view name) {
  constexpr std::string_view kOfLayer = "of layer ";
  if (const size_t at = name.rfind(kOfLayer); at != std::string_view::npos) {
    return number_in(name.substr(at + kOfLayer.size()));
  }
  while (!name.empty()) {
    const size_t length = std::min(name.find('.'), name.size());
    if (const auto number = number_in(name.substr(0, length))) return number;
    name.remove_prefix(std::min(length + 1, name.size()));
  }
  return std::nullopt;
}

Json to_json(const GraphProfile& profile) {
  Json nodes = Json::array();
  for (const ProfiledNode& node : profile.nodes) nodes.push_back(node_json(node));
  const cudagraph::BatchDescriptor& descriptor = profile.descriptor;
  Json json = {{"format", kProfileFormat},
               {"version", kProfileVersion},
               {"engine", profile.engine},
               {"key",
                {{"runtime_mode", to_string(profile.mode)},
                 {"num_tokens", descriptor.num_tokens},
                 {"num_reqs", nullptr},
                 {"uniform", descriptor.uniform},
                 {"has_lora", descriptor.has_lora},
                 {"num_active_loras", descriptor.num_active_loras}}},
               {"batch",
                {{"num_reqs", profile.num_reqs},
                 {"num_tokens", profile.num_tokens},
                 {"context_len", profile.context_len}}},
               {"num_replays", profile.num_replays},
               {"replay_us", spread_json(profile.replay)},
               {"eager_us", spread_json(profile.eager)},
               {"why_no_node_times", profile.why_no_node_times},
               {"memory_gb_s", nullptr},
               {"padding",
                {{"fewest_tokens", profile.padding.fewest_tokens},
                 {"most_tokens", profile.padding.most_tokens},
                 {"mean_share", profile.padding.mean_share},
                 {"largest_share", profile.padding.largest_share}}},
               {"nodes", std::move(nodes)}};
  if (descriptor.num_reqs) json["key"]["num_reqs"] = *descriptor.num_reqs;
  if (profile.memory_gb_s) json["memory_gb_s"] = *profile.memory_gb_s;
  return json;
}

GraphProfile profile_from_json(const Json& json, std::string_view path) {
  const auto refuse = [&](std::string_view field, std::string_view problem) {
    throw FileError("E_PROFILE", path, field, problem);
  };
  if (!json.is_object() || json.value("format", Json()) != kProfileFormat) {
    refuse("format", "is no profile of a graph; `reprise graph show --json` writes one");
  }
  if (json.value("version", Json()) != kProfileVersion) {
    refuse("version",
           fmt::format("is {}, and this program reads {}; write the profile again",
                       json.value("version", Json()).dump(),
                       kProfileVersion));
  }
  try {
    return read_profile(json);
  } catch (const Json::exception& error) {
    refuse("", error.what());
  } catch (const InvalidArgument& error) {
    refuse("key", error.what());
  }
  return {};
}

}  // namespace reprise::runner
