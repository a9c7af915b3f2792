#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/bench/dataset.h"
#include "reprise/bench/serving_metrics.h"
#include "reprise/bench/traffic.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// The arguments of `reprise bench serve`.
struct ServeArguments {
  std::string backend = "openai";
  std::string base_url;
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  std::string endpoint;  // empty: the backend's default
  std::string model;
  std::string served_model_name;
  std::string tokenizer;
  std::vector<std::pair<std::string, std::string>> headers;
  bool insecure = false;
  int32_t ready_check_timeout_sec = 0;

  bench::DatasetOptions dataset;
  bench::Traffic traffic;
  std::optional<bool> self_timed;  // requests are sent at the times of the dataset
  std::string ramp_up_strategy;
  std::optional<int32_t> max_concurrency;
  int32_t num_warmups = 0;
  int32_t seed = 0;
  bool ignore_eos = false;
  std::optional<int32_t> logprobs;
  Json sampling = Json::object();
  Json extra_body = Json::object();
  std::string request_id_prefix;
  bool profile = false;

  std::string percentile_metrics = "ttft,tpot,itl";
  std::string metric_percentiles = "99";
  bench::Goodput goodput;
  bool disable_tqdm = false;
  std::string plot;
  std::string label;
  bool save_result = false;
  bool save_detailed = false;
  bool append_result = false;
  std::string result_dir;
  std::string result_filename;
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// The options that set `arguments`, which must outlive the table.
[[nodiscard]] OptionTable bench_serve_table(ServeArguments& arguments);

/// Checks conditions between options and fills in values that depend on other options or on the
/// environment. \throws InvalidArgument
void settle(ServeArguments& arguments);

}  // namespace reprise::cli
