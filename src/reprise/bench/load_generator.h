#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/bench/request_outcome.h"
#include "reprise/http_client/http_client.h"

namespace reprise::bench {

enum class Backend : uint8_t { completions, chat };

/// How a run sends its requests.
struct RequestOptions {
  Backend backend = Backend::completions;
  std::string endpoint = "/v1/completions";
  std::string model;
  bool ignore_eos = false;
  std::optional<int32_t> logprobs;
  Json extra_body = Json::object();  // overrides all other members of the body
  std::vector<std::pair<std::string, std::string>> headers;
  std::string request_id_prefix;
};

/// The body that vLLM's client sends for `request`.
[[nodiscard]] Json request_body(const RequestOptions& options, const SampleRequest& request);

struct LoadOptions {
  RequestOptions request;
  std::vector<double> send_times;          // seconds, one per request, ascending
  std::optional<int32_t> max_concurrency;  // more requests than this wait in the client, in order
};

struct LoadResult {
  std::vector<RequestOutcome> outcomes;  // in the order of the requests
  double duration = 0;                   // seconds, from the start to the end of the last request
};

/// Sends `requests` at their times and waits for all answers, on this thread. A failed request also
/// gives an outcome. `on_finished` runs after each request.
[[nodiscard]] LoadResult generate_load(http_client::HttpClient& client,
                                       const LoadOptions& options,
                                       const std::vector<SampleRequest>& requests,
                                       const std::function<void()>& on_finished = {});

}  // namespace reprise::bench
