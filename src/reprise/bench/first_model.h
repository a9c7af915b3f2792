#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reprise/bench/http_client.h"

namespace reprise::bench {

struct ServerModel {
  std::string id;
  std::string root;  // where the server says it was loaded from; else `id`
};

/// The model that a server names first; `target` is its route for models.
/// \throws Error when it names none
[[nodiscard]] ServerModel first_model(
    HttpClient& client,
    const std::string& target,
    const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace reprise::bench
