#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::server {

/// What the configuration file of a running server says now, compared with what is in force.
struct ReloadedConfig {
  Json graph_change = Json::object();      // see api::parse_graph_change; empty: none
  std::vector<std::string> needs_restart;  // options that changed and cannot change now
  std::function<void()> accept;            // the change is in force
};

}  // namespace reprise::server
