#include "reprise/bench/first_model.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::bench {

ServerModel first_model(http_client::HttpClient& client,
                        const std::string& target,
                        const std::vector<std::pair<std::string, std::string>>& headers) {
  const http_client::HttpReply reply = client.fetch({.target = target, .headers = headers});
  if (reply.status != 200) {
    throw Error(
        fmt::format("GET {}: {} {}; name the model yourself, or look at the address and "
                    "the key",
                    target,
                    reply.status,
                    reply.reason));
  }
  const Json models = parse_json(reply.body, "GET " + target);
  const bool has_one = models.is_object() && models.contains("data") && models["data"].is_array() &&
                       !models["data"].empty() && models["data"][0].is_object() &&
                       models["data"][0].contains("id") && models["data"][0]["id"].is_string();
  if (!has_one) throw Error(fmt::format("GET {}: names no model", target));
  const Json& model = models["data"][0];
  const bool has_root = model.contains("root") && model["root"].is_string();
  return {model["id"], has_root ? model["root"] : model["id"]};
}

}  // namespace reprise::bench
