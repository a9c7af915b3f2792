#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::server {

/// The difference between the configuration file of a running server as it is now and the
/// configuration in force.
struct ReloadedConfig {
  Json graph_change = Json::object();      // see api::parse_graph_change; empty: none
  std::vector<std::string> needs_restart;  // options that changed and cannot change now
  // Call this when the change is in force: the next comparison then begins here.
  std::function<void()> accept;
};

}  // namespace reprise::server
