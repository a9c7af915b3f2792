#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reprise/http_client/http_client.h"

namespace reprise::bench {

struct ServerModel {
  std::string id;
  std::string root;  // the place from which the server loaded it, if the server says so; else `id`
};

/// Asks the server for its models at the path `target` and returns the first one.
/// \throws Error when the server names no model
[[nodiscard]] ServerModel first_model(
    http_client::HttpClient& client,
    const std::string& target,
    const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace reprise::bench
