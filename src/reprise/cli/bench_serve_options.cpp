#include "reprise/cli/bench_serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "reprise/base/error.h"
#include "reprise/bench/serving_report.h"
#include "reprise/cli/bench_options.h"
#include "reprise/cli/plot_option.h"

namespace reprise::cli {
namespace {

constexpr const char* kTraffic = "Traffic";
constexpr const char* kRequests = "Requests";

void set_goodput(bench::Goodput& goodput, std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  double* limit = name == "ttft"   ? &goodput.ttft_ms
                  : name == "tpot" ? &goodput.tpot_ms
                  : name == "e2el" ? &goodput.e2el_ms
                                   : nullptr;
  if (colon == std::string_view::npos || limit == nullptr) {
    throw InvalidArgument(fmt::format("--goodput: '{}' is not ttft:MS, tpot:MS or e2el:MS", text));
  }
  *limit = parse_number("--goodput", text.substr(colon + 1));
  if (*limit < 0) throw InvalidArgument(fmt::format("--goodput: '{}' is negative", text));
}

void add_server_options(OptionTable& table, ServeArguments& arguments) {
  table.add_text("backend",
                 kServer,
                 "NAME",
                 "openai or vllm (completions), openai-chat (chat completions).",
                 arguments.backend);
  table.add_text("base-url",
                 kServer,
                 "URL",
                 "Address of the server, instead of --host and --port.",
                 arguments.base_url);
  table.add_text("host", kServer, "ADDRESS", "Address of the server.", arguments.host);
  table.add_integer("port", kServer, "Port of the server.", arguments.port);
  table.add({.name = "endpoint",
             .group = kServer,
             .value_name = "PATH",
             .help = "Path of the requests.",
             .default_text = "/v1/completions, or /v1/chat/completions for openai-chat",
             .apply = [&arguments](std::string_view value) { arguments.endpoint = value; }});
  table.add({.name = "model",
             .group = kServer,
             .value_name = "NAME",
             .help = "Model folder or name; its tokenizer counts tokens.",
             .default_text = "the server's first",
             .apply = [&arguments](std::string_view value) { arguments.model = value; }});
  table.add_text("served-model-name",
                 kServer,
                 "NAME",
                 "Model name in requests, if it differs from --model.",
                 arguments.served_model_name);
  table.add_text("tokenizer",
                 kServer,
                 "DIR",
                 "Folder with tokenizer.json, if --model is not such a folder.",
                 arguments.tokenizer);
  table.add({.name = "header",
             .group = kServer,
             .value_name = "KEY=VALUE",
             .help = "Headers of every request; takes several values.",
             .apply = [&arguments](std::string_view value) {
               arguments.headers.push_back(split_pair("--header", value));
             }});
  table.add_switch(
      "insecure", kServer, "Do not check the certificate of an https server.", arguments.insecure);
  table.add_integer("ready-check-timeout-sec",
                    kServer,
                    "Seconds to wait for a first answer before the load; 0 = do not wait.",
                    arguments.ready_check_timeout_sec);
}

void add_traffic_options(OptionTable& table, ServeArguments& arguments) {
  add_number(table,
             "request-rate",
             kTraffic,
             "Requests per second; inf sends all at once.",
             arguments.traffic.request_rate);
  add_number(table,
             "burstiness",
             kTraffic,
             "Shape of the gamma distribution between requests: 1 is Poisson, smaller values give "
             "bursts, inf gives equal intervals.",
             arguments.traffic.burstiness);
  table.add_switch("self-timed",
                   kTraffic,
                   "Send requests at the times of --dataset-name timed_trace.",
                   "on for timed_trace",
                   arguments.self_timed);
  add_optional_integer(table,
                       "max-concurrency",
                       kTraffic,
                       "Most requests at the same time; others wait in this program.",
                       arguments.max_concurrency,
                       1);
  table.add_text("ramp-up-strategy",
                 kTraffic,
                 "KIND",
                 "linear or exponential, from the start to the end rate.",
                 arguments.ramp_up_strategy);
  add_number(table,
             "ramp-up-start-rps",
             kTraffic,
             "Requests per second at the start of the ramp.",
             arguments.traffic.ramp_up_start_rps);
  add_number(table,
             "ramp-up-end-rps",
             kTraffic,
             "Requests per second at the end of the ramp.",
             arguments.traffic.ramp_up_end_rps);
  table.add_integer(
      "num-warmups", kTraffic, "Requests before measuring, all at once.", arguments.num_warmups);
  table.add_integer("seed", kTraffic, "Seed of prompts and of arrival times.", arguments.seed);
}

void add_request_options(OptionTable& table, ServeArguments& arguments) {
  table.add_switch("ignore-eos",
                   kRequests,
                   "Ask for answers of full length; always so for --dataset-name random.",
                   arguments.ignore_eos);
  add_optional_integer(table,
                       "logprobs",
                       kRequests,
                       "Log-probabilities per token that requests ask for.",
                       arguments.logprobs,
                       0);
  for (const char* name : {"temperature",
                           "top-p",
                           "min-p",
                           "frequency-penalty",
                           "presence-penalty",
                           "repetition-penalty"}) {
    std::string field = name;
    std::replace(field.begin(), field.end(), '-', '_');
    table.add({.name = name,
               .group = kRequests,
               .value_name = "X",
               .help = fmt::format("Sent as {}.", field),
               .default_text = "the server's",
               .apply = [&arguments, field, name](std::string_view value) {
                 arguments.sampling[field] = parse_number(fmt::format("--{}", name), value);
               }});
  }
  table.add({.name = "top-k",
             .group = kRequests,
             .value_name = "N",
             .help = "Sent as top_k.",
             .default_text = "the server's",
             .apply = [&arguments](std::string_view value) {
               arguments.sampling["top_k"] = parse_human_integer("--top-k", value);
             }});
  table.add({.name = "extra-body",
             .group = kRequests,
             .value_name = "JSON",
             .help = "Members added to every request.",
             .apply = [&arguments](std::string_view value) {
               arguments.extra_body = parse_json(value, "--extra-body");
               if (!arguments.extra_body.is_object()) {
                 throw InvalidArgument("--extra-body: must be a JSON object");
               }
             }});
  table.add(
      {.name = "request-id-prefix",
       .group = kRequests,
       .value_name = "TEXT",
       .help = "Prefix of the header x-request-id.",
       .default_text = "bench-<hex>-",
       .apply = [&arguments](std::string_view value) { arguments.request_id_prefix = value; }});
  table.add_switch("profile",
                   kRequests,
                   "Call /start_profile before and /stop_profile after.",
                   arguments.profile);
}

void add_result_options(OptionTable& table, ServeArguments& arguments) {
  table.add_text("percentile-metrics",
                 kResults,
                 "LIST",
                 "Which of ttft, tpot, itl, e2el are shown.",
                 arguments.percentile_metrics);
  table.add_text("metric-percentiles",
                 kResults,
                 "LIST",
                 "Which percentiles, as 50,90,99.",
                 arguments.metric_percentiles);
  table.add(
      {.name = "goodput",
       .group = kResults,
       .value_name = "KEY:MS",
       .help = "Count requests within ttft:MS, tpot:MS, e2el:MS; takes several values.",
       .apply = [&arguments](std::string_view value) { set_goodput(arguments.goodput, value); }});
  table.add_switch("disable-tqdm", kResults, "No progress bar.", arguments.disable_tqdm);
  add_plot_option(table, "Write a page with latency curves and the run over time.", arguments.plot);
  table.add_switch("save-result", kResults, "Write a JSON file.", arguments.save_result);
  table.add_switch(
      "save-detailed",
      kResults,
      "Add the values of each request to the JSON file: times, lengths, texts, errors.",
      arguments.save_detailed);
  table.add_switch("append-result",
                   kResults,
                   "Add a line to the JSON file instead of overwriting it.",
                   arguments.append_result);
  table.add_text("result-dir", kResults, "DIR", "Folder of the JSON file.", arguments.result_dir);
  table.add({.name = "result-filename",
             .group = kResults,
             .value_name = "FILE",
             .help = "Name of the JSON file.",
             .default_text = "LABEL-RATEqps[-concurrencyN]-MODEL-DATE.json",
             .apply = [&arguments](std::string_view value) { arguments.result_filename = value; }});
  table.add_text("label",
                 kResults,
                 "TEXT",
                 "Beginning of the file's name; default: the backend.",
                 arguments.label);
  table.add({.name = "metadata",
             .group = kResults,
             .value_name = "KEY=VALUE",
             .help = "Members added to the file; takes several values.",
             .apply = [&arguments](std::string_view value) {
               arguments.metadata.push_back(split_pair("--metadata", value));
             }});
}

}  // namespace

OptionTable bench_serve_table(ServeArguments& arguments) {
  OptionTable table("reprise bench serve [options]",
                    "Sends a load to any OpenAI server and reports latencies and throughput by "
                    "vLLM's definitions.");
  add_server_options(table, arguments);
  add_dataset_options(table, arguments.dataset);
  add_traffic_options(table, arguments);
  add_request_options(table, arguments);
  add_result_options(table, arguments);
  return table;
}

namespace {

/// Decides whether the dataset's times are used.
void settle_times(ServeArguments& arguments) {
  const bool has_times = arguments.dataset.name == "timed_trace";
  if (arguments.self_timed == true && !has_times) {
    throw InvalidArgument(
        fmt::format("--self-timed: --dataset-name {} has no times; only timed_trace has",
                    arguments.dataset.name));
  }
  const bool has_rate = !std::isinf(arguments.traffic.request_rate) ||
                        arguments.traffic.ramp_up != bench::RampUp::none;
  if (arguments.self_timed.value_or(has_times) && has_rate) {
    throw InvalidArgument(
        "--request-rate and --ramp-up-strategy: --dataset-name timed_trace has its own times; give "
        "--no-self-timed to send its requests at another rate");
  }
  arguments.self_timed = arguments.self_timed.value_or(has_times);
}

}  // namespace

void settle(ServeArguments& arguments) {
  if (arguments.backend != "openai" && arguments.backend != "vllm" &&
      arguments.backend != "openai-chat") {
    throw InvalidArgument(
        fmt::format("--backend: '{}' is not one of openai, vllm, openai-chat", arguments.backend));
  }
  const bool is_chat = arguments.backend == "openai-chat";
  if (arguments.endpoint.empty()) {
    arguments.endpoint = is_chat ? "/v1/chat/completions" : "/v1/completions";
  }
  const bool fits = arguments.endpoint.starts_with('/') &&
                    arguments.endpoint.ends_with(is_chat ? "chat/completions" : "completions");
  if (!fits || (!is_chat && arguments.endpoint.ends_with("chat/completions"))) {
    throw InvalidArgument(fmt::format("--endpoint: '{}' is not a path that --backend {} can use",
                                      arguments.endpoint,
                                      arguments.backend));
  }
  if (arguments.port < 1 || arguments.port > 65535) {
    throw InvalidArgument(fmt::format("--port: {} is not in 1..65535", arguments.port));
  }
  if (arguments.ramp_up_strategy == "linear") {
    arguments.traffic.ramp_up = bench::RampUp::linear;
  } else if (arguments.ramp_up_strategy == "exponential") {
    arguments.traffic.ramp_up = bench::RampUp::exponential;
  } else if (!arguments.ramp_up_strategy.empty()) {
    throw InvalidArgument(fmt::format("--ramp-up-strategy: '{}' is not linear or exponential",
                                      arguments.ramp_up_strategy));
  }
  bench::check(arguments.traffic);
  settle_times(arguments);
  bench::check_metric_names(split_commas(arguments.percentile_metrics));
  if (arguments.dataset.name == "random") arguments.ignore_eos = true;
  if (arguments.request_id_prefix.empty()) {
    arguments.request_id_prefix = fmt::format("bench-{:08x}-", std::random_device{}());
  }
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr && *key != '\0') {
    arguments.headers.insert(arguments.headers.begin(),
                             {"Authorization", fmt::format("Bearer {}", key)});
  }
  for (const auto& [name, value] : arguments.sampling.items()) {
    if (!arguments.extra_body.contains(name)) arguments.extra_body[name] = value;
  }
}

}  // namespace reprise::cli
