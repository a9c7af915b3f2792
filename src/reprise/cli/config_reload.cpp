#include "reprise/cli/config_reload.h"

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "reprise/api/graphs/graph_change.h"

namespace reprise::cli {
namespace {

// Options that are members of EngineArgs, so their values are compared member by member instead.
const std::set<std::string_view> kComparedApart = {"compilation-config",
                                                   "cudagraph-capture-sizes",
                                                   "max-cudagraph-capture-size",
                                                   "shadow-check-rate",
                                                   "verify-graphs"};

/// The names of the members that differ.
std::set<std::string> differences(const Json& before, const Json& after) {
  std::set<std::string> names;
  for (const Json* json : {&before, &after}) {
    for (const auto& [name, value] : json->items()) {
      const Json* const other = json == &before ? &after : &before;
      if (!other->contains(name) || (*other)[name] != value) names.insert(name);
    }
  }
  return names;
}

}  // namespace

ConfigReload::ConfigReload(ReadConfiguration now, std::function<ReadConfiguration()> read_again)
    : start_(std::move(now)), accepted_(start_.engine), read_again_(std::move(read_again)) {}

server::ReloadedConfig ConfigReload::read() {
  const ReadConfiguration now = read_again_();
  server::ReloadedConfig reloaded;
  for (const std::string& name : differences(start_.options, now.options)) {
    if (!kComparedApart.contains(name)) reloaded.needs_restart.push_back("--" + name);
  }
  const Json& config = now.engine.compilation_config;
  for (const std::string& name : differences(start_.engine.compilation_config, config)) {
    if (api::is_changeable_compilation_field(name)) continue;
    reloaded.needs_restart.push_back("--compilation-config." + name);
  }
  for (const std::string& name : differences(accepted_.compilation_config, config)) {
    if (!api::is_changeable_compilation_field(name)) continue;
    reloaded.graph_change[name] = config.contains(name) ? config[name] : Json(nullptr);
  }
  if (now.engine.shadow_check_rate != accepted_.shadow_check_rate) {
    reloaded.graph_change["shadow_check_rate"] = now.engine.shadow_check_rate;
  }
  if (now.engine.verify_graphs != accepted_.verify_graphs) {
    reloaded.graph_change["verify_graphs"] = now.engine.verify_graphs;
  }
  reloaded.accept = [this, engine = now.engine] { accepted_ = engine; };
  return reloaded;
}

}  // namespace reprise::cli
