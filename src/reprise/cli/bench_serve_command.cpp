#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/bench/first_model.h"
#include "reprise/bench/serving_charts.h"
#include "reprise/bench/serving_report.h"
#include "reprise/bench/traffic.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/bench_options.h"

namespace reprise::cli {
namespace {

using bench::Backend;
using bench::HttpCall;
using bench::HttpClient;
using bench::HttpReply;
using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kServer = "Server";
constexpr const char* kTraffic = "Traffic";
constexpr const char* kRequests = "Requests";
constexpr const char* kResults = "Results";
constexpr std::array<std::string_view, 3> kLists = {"--goodput", "--metadata", "--header"};
constexpr size_t kMaxShownErrors = 10;

struct ServeArguments {
  std::string backend = "openai";
  std::string base_url;
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  std::string endpoint;  // empty: by the backend
  std::string model;
  std::string served_model_name;
  std::string tokenizer;
  Headers headers;
  int32_t ready_check_timeout_sec = 0;

  bench::DatasetOptions dataset;
  bench::Traffic traffic;
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
  Headers metadata;
};

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
  table.add_text("base-url", kServer, "URL", "Instead of --host and --port.", arguments.base_url);
  table.add_text("host", kServer, "ADDRESS", "Where the server listens.", arguments.host);
  table.add_integer("port", kServer, "Its port.", arguments.port);
  table.add({.name = "endpoint",
             .group = kServer,
             .value_name = "PATH",
             .help = "Where requests go.",
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
                 "Name in requests, where it is not --model.",
                 arguments.served_model_name);
  table.add_text("tokenizer",
                 kServer,
                 "DIR",
                 "Folder with tokenizer.json, where --model is not one.",
                 arguments.tokenizer);
  table.add({.name = "header",
             .group = kServer,
             .value_name = "KEY=VALUE",
             .help = "Sent with every request; takes several.",
             .apply = [&arguments](std::string_view value) {
               arguments.headers.push_back(split_pair("--header", value));
             }});
  table.add_integer("ready-check-timeout-sec",
                    kServer,
                    "Wait that long for a first answer; 0 does not ask.",
                    arguments.ready_check_timeout_sec);
}

void add_traffic_options(OptionTable& table, ServeArguments& arguments) {
  add_number(table,
             "request-rate",
             kTraffic,
             "Requests per second; inf sends all at once.",
             arguments.traffic.request_rate);
  add_number(
      table,
      "burstiness",
      kTraffic,
      "Shape of the gamma distribution between requests: 1 is Poisson, less comes in bursts, "
      "inf is even.",
      arguments.traffic.burstiness);
  add_optional_integer(table,
                       "max-concurrency",
                       kTraffic,
                       "Requests at once; more wait on this side.",
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
             "Requests per second at first.",
             arguments.traffic.ramp_up_start_rps);
  add_number(table,
             "ramp-up-end-rps",
             kTraffic,
             "Requests per second at last.",
             arguments.traffic.ramp_up_end_rps);
  table.add_integer(
      "num-warmups", kTraffic, "Requests before measuring, all at once.", arguments.num_warmups);
  table.add_integer("seed", kTraffic, "Of prompts and of arrival times.", arguments.seed);
}

void add_request_options(OptionTable& table, ServeArguments& arguments) {
  table.add_switch("ignore-eos",
                   kRequests,
                   "Ask for answers of full length; always so for --dataset-name random.",
                   arguments.ignore_eos);
  add_optional_integer(
      table, "logprobs", kRequests, "Ask for this many per token.", arguments.logprobs, 0);
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
       .help = "Of the header x-request-id.",
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
       .help = "Count requests within ttft:MS, tpot:MS, e2el:MS; takes several.",
       .apply = [&arguments](std::string_view value) { set_goodput(arguments.goodput, value); }});
  table.add_switch("disable-tqdm", kResults, "No progress bar.", arguments.disable_tqdm);
  table.add({.name = "plot",
             .group = kResults,
             .value_name = "FILE",
             .help = "Write a page with latency curves and the run over time.",
             .apply = [&arguments](std::string_view value) { arguments.plot = value; }});
  table.add_switch("save-result", kResults, "Write a JSON file.", arguments.save_result);
  table.add_switch("save-detailed",
                   kResults,
                   "With one value per request: times, lengths, texts, errors.",
                   arguments.save_detailed);
  table.add_switch("append-result",
                   kResults,
                   "Add a line to the JSON file instead of writing it anew.",
                   arguments.append_result);
  table.add_text("result-dir", kResults, "DIR", "Where it goes.", arguments.result_dir);
  table.add({.name = "result-filename",
             .group = kResults,
             .value_name = "FILE",
             .help = "Its name.",
             .default_text = "LABEL-RATEqps[-concurrencyN]-MODEL-DATE.json",
             .apply = [&arguments](std::string_view value) { arguments.result_filename = value; }});
  table.add_text("label", kResults, "TEXT", "Begins its name; else the backend.", arguments.label);
  table.add({.name = "metadata",
             .group = kResults,
             .value_name = "KEY=VALUE",
             .help = "Members added to the file; takes several.",
             .apply = [&arguments](std::string_view value) {
               arguments.metadata.push_back(split_pair("--metadata", value));
             }});
}

OptionTable make_table(ServeArguments& arguments) {
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

std::vector<double> parse_percentiles(const std::string& text) {
  std::vector<double> percents;
  for (const std::string& part : split_commas(text)) {
    percents.push_back(parse_number("--metric-percentiles", part));
    if (percents.back() < 0 || percents.back() > 100) {
      throw InvalidArgument(fmt::format("--metric-percentiles: {} is not in 0..100", part));
    }
  }
  return percents;
}

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
    throw InvalidArgument(fmt::format("--endpoint: '{}' is no path that --backend {} can use",
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

std::filesystem::path find_tokenizer(const ServeArguments& arguments, const std::string& root) {
  for (const std::string& folder : {arguments.tokenizer, arguments.model, root}) {
    if (!folder.empty() &&
        std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json"))
      return folder;
    if (!folder.empty() && folder == arguments.tokenizer) break;
  }
  throw InvalidArgument(fmt::format(
      "{} is no folder with tokenizer.json; prompts are counted in tokens on this side: give "
      "--tokenizer DIR",
      !arguments.tokenizer.empty() ? arguments.tokenizer
      : !arguments.model.empty()   ? arguments.model
                                   : root));
}

// One request after the other until one is answered.
void wait_until_ready(HttpClient& client,
                      const bench::RequestOptions& options,
                      const bench::SampleRequest& request,
                      int32_t timeout_seconds) {
  constexpr auto kPause = std::chrono::seconds(1);
  const auto deadline = bench::Clock::now() + std::chrono::seconds(timeout_seconds);
  fmt::print(stderr, "Starting initial single prompt test run...\n");
  for (;;) {
    const bench::LoadResult result =
        generate_load(client, {.request = options, .send_times = {0}}, {request});
    if (result.outcomes[0].success) return;
    if (bench::Clock::now() + kPause > deadline) {
      throw Error(fmt::format("the server did not answer a first request within {} s: {}",
                              timeout_seconds,
                              result.outcomes[0].error));
    }
    std::this_thread::sleep_for(kPause);
  }
}

class ProgressBar {
 public:
  ProgressBar(size_t total, bool is_off) : total_(total), is_off_(is_off || isatty(2) == 0) {}

  void step() {
    ++done_;
    if (is_off_) return;
    const size_t width = 30 * done_ / total_;
    fmt::print(stderr, "\r[{:<30}] {}/{}", std::string(width, '#'), done_, total_);
    if (done_ == total_) fmt::print(stderr, "\n");
    std::fflush(stderr);
  }

 private:
  size_t total_;
  size_t done_ = 0;
  bool is_off_;
};

void call_profiler(HttpClient& client, const Headers& headers, const std::string& path) {
  const HttpReply reply = client.fetch({.method = "POST", .target = path, .headers = headers});
  if (reply.status == 200) return;
  fmt::print(stderr, "warning: POST {}: {} {}\n", path, reply.status, reply.reason);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return text.data();
}

std::filesystem::path result_path(const ServeArguments& arguments, const std::string& date) {
  const std::string label = arguments.label.empty() ? arguments.backend : arguments.label;
  const std::string concurrency =
      arguments.max_concurrency ? fmt::format("-concurrency{}", *arguments.max_concurrency) : "";
  std::string model = arguments.model;
  while (model.ends_with('/')) model.pop_back();
  model = model.substr(model.rfind('/') + 1);
  const std::string rate = arguments.ramp_up_strategy.empty()
                               ? bench::python_float(arguments.traffic.request_rate) + "qps"
                               : fmt::format("ramp-up-{}-{}qps-{}qps",
                                             arguments.ramp_up_strategy,
                                             arguments.traffic.ramp_up_start_rps,
                                             arguments.traffic.ramp_up_end_rps);
  std::string name = arguments.result_filename;
  if (name.empty()) name = fmt::format("{}-{}{}-{}-{}.json", label, rate, concurrency, model, date);
  return std::filesystem::path(arguments.result_dir) / name;
}

Json result_json(const ServeArguments& arguments,
                 const std::filesystem::path& tokenizer,
                 const std::string& date,
                 const Json& measured) {
  Json json = {{"date", date},
               {"endpoint_type", arguments.backend},
               {"backend", arguments.backend},
               {"label", arguments.label.empty() ? Json(nullptr) : Json(arguments.label)},
               {"model_id", arguments.model},
               {"tokenizer_id", tokenizer.string()},
               {"num_prompts", arguments.dataset.num_prompts}};
  for (const auto& [name, value] : arguments.metadata) json[name] = value;
  json["request_rate"] = std::isinf(arguments.traffic.request_rate)
                             ? Json("inf")
                             : Json(arguments.traffic.request_rate);
  json["burstiness"] =
      std::isinf(arguments.traffic.burstiness) ? Json("inf") : Json(arguments.traffic.burstiness);
  json["max_concurrency"] =
      arguments.max_concurrency ? Json(*arguments.max_concurrency) : Json(nullptr);
  if (!arguments.ramp_up_strategy.empty()) {
    json["ramp_up_strategy"] = arguments.ramp_up_strategy;
    json["ramp_up_start_rps"] = arguments.traffic.ramp_up_start_rps;
    json["ramp_up_end_rps"] = arguments.traffic.ramp_up_end_rps;
  }
  json.update(measured);
  return json;
}

void save(const ServeArguments& arguments, const Json& json, const std::string& date) {
  const std::filesystem::path path = result_path(arguments, date);
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const bool has_lines = arguments.append_result && std::filesystem::exists(path) &&
                         std::filesystem::file_size(path) > 0;
  std::ofstream file(path, arguments.append_result ? std::ios::app : std::ios::trunc);
  if (has_lines) file << "\n";
  file << json.dump(-1, ' ', false, Json::error_handler_t::replace);
  file.close();
  if (!file) throw Error(fmt::format("{}: the result cannot be written there", path.string()));
  fmt::print(stderr, "Result: {}\n", path.string());
}

void print_traffic(const ServeArguments& arguments) {
  const bench::Traffic& traffic = arguments.traffic;
  if (arguments.ramp_up_strategy.empty()) {
    fmt::print(stderr, "Traffic request rate: {}\n", bench::python_float(traffic.request_rate));
  } else {
    fmt::print(stderr,
               "Traffic ramp-up strategy: {}, from {} to {} requests per second\n",
               arguments.ramp_up_strategy,
               traffic.ramp_up_start_rps,
               traffic.ramp_up_end_rps);
  }
  fmt::print(stderr,
             "Burstiness factor: {} ({})\nMaximum request concurrency: {}\n",
             bench::python_float(traffic.burstiness),
             traffic.burstiness == 1 ? "Poisson process" : "Gamma distribution",
             arguments.max_concurrency ? fmt::format("{}", *arguments.max_concurrency) : "None");
}

void print_failures(const bench::LoadResult& result) {
  size_t shown = 0;
  for (const bench::RequestOutcome& outcome : result.outcomes) {
    if (outcome.success || shown == kMaxShownErrors) continue;
    if (shown == 0) {
      fmt::print(stderr,
                 "Failed requests during benchmark run detected (capping to {}):\n",
                 kMaxShownErrors);
    }
    fmt::print(stderr, "Error {}: {}\n", shown++, outcome.error);
  }
}

}  // namespace

int run_bench_serve(std::span<const std::string> raw_arguments) {
  ServeArguments arguments;
  const OptionTable table = make_table(arguments);
  if (OptionTable::asks_for_help(raw_arguments)) {
    fmt::print("{}", table.help_text(raw_arguments));
    return 0;
  }
  const std::vector<std::string> positional = table.parse(expand_lists(raw_arguments, kLists));
  if (!positional.empty()) {
    throw InvalidArgument(fmt::format("unexpected argument '{}'", positional[0]));
  }
  settle(arguments);
  const std::vector<double> percents = parse_percentiles(arguments.metric_percentiles);
  const std::string url = arguments.base_url.empty()
                              ? fmt::format("http://{}:{}",
                                            arguments.host.find(':') == std::string::npos
                                                ? arguments.host
                                                : fmt::format("[{}]", arguments.host),
                                            arguments.port)
                              : arguments.base_url;
  raise_open_file_limit();
  HttpClient client(bench::parse_url(arguments.base_url.empty() ? "--host" : "--base-url", url));

  std::string root;
  if (arguments.model.empty()) {
    const bench::ServerModel first = first_model(client, "/v1/models", arguments.headers);
    arguments.model = first.id;
    root = first.root;
  }
  const std::filesystem::path tokenizer_folder = find_tokenizer(arguments, root);
  const PromptMaker prompts(tokenizer_folder);
  const bool is_chat = arguments.backend == "openai-chat";
  // Two streams of numbers: as many draws as the prompts take, the arrivals stay the same.
  bench::RandomSource prompt_numbers(static_cast<uint64_t>(arguments.seed));
  bench::RandomSource arrival_numbers(static_cast<uint64_t>(arguments.seed) ^ 0x9e3779b97f4a7c15U);
  const std::vector<bench::SampleRequest> requests =
      make_requests(arguments.dataset, prompts.tools(is_chat), prompt_numbers);
  bench::LoadOptions load{
      .request = {.backend = is_chat ? Backend::chat : Backend::completions,
                  .endpoint = arguments.endpoint,
                  .model = arguments.served_model_name.empty() ? arguments.model
                                                               : arguments.served_model_name,
                  .ignore_eos = arguments.ignore_eos,
                  .logprobs = arguments.logprobs,
                  .extra_body = arguments.extra_body,
                  .headers = arguments.headers,
                  .request_id_prefix = arguments.request_id_prefix},
      .send_times = bench::send_times(arguments.traffic, requests.size(), arrival_numbers),
      .max_concurrency = arguments.max_concurrency};

  bench::RequestOptions unmeasured = load.request;
  unmeasured.request_id_prefix += "warmup-";
  if (arguments.ready_check_timeout_sec > 0) {
    wait_until_ready(client, unmeasured, requests[0], arguments.ready_check_timeout_sec);
  }
  if (arguments.num_warmups > 0) {
    const auto count = static_cast<size_t>(arguments.num_warmups);
    fmt::print(stderr, "Warming up with {} requests...\n", count);
    const std::vector<bench::SampleRequest> same(count, requests[0]);
    const bench::LoadOptions warmup{.request = unmeasured,
                                    .send_times = std::vector<double>(count, 0.0),
                                    .max_concurrency = arguments.max_concurrency};
    static_cast<void>(generate_load(client, warmup, same));
  }
  if (arguments.profile) call_profiler(client, arguments.headers, "/start_profile");
  fmt::print(stderr, "Starting main benchmark run...\n");
  print_traffic(arguments);
  ProgressBar progress(requests.size(), arguments.disable_tqdm);
  const bench::LoadResult result =
      generate_load(client, load, requests, [&progress] { progress.step(); });
  if (arguments.profile) call_profiler(client, arguments.headers, "/stop_profile");

  const bench::ServingMetrics metrics =
      compute_metrics(result, percents, arguments.goodput, [&prompts](std::string_view text) {
        return static_cast<int64_t>(
            prompts.tokenizer().encode(text, {.add_special_tokens = false}).size());
      });
  const bench::ReportOptions report{.request_rate = arguments.traffic.request_rate,
                                    .max_concurrency = arguments.max_concurrency,
                                    .shows_goodput = arguments.goodput.is_asked_for(),
                                    .metrics = split_commas(arguments.percentile_metrics)};
  print_failures(result);
  fmt::print("{}", console_block(metrics, report));
  std::fflush(stdout);
  if (arguments.save_result || arguments.append_result) {
    const std::string date = now_text();
    const Json measured = to_json(metrics, report, result, arguments.save_detailed);
    save(arguments, result_json(arguments, tokenizer_folder, date, measured), date);
  }
  if (!arguments.plot.empty()) {
    std::ofstream page(arguments.plot, std::ios::trunc);
    page << bench::render_page(fmt::format("{}: {} requests", arguments.model, requests.size()),
                               console_block(metrics, report),
                               serving_charts(result));
    page.close();
    if (!page) throw Error(fmt::format("{}: the page cannot be written there", arguments.plot));
  }
  if (metrics.completed == 0) {
    throw Error("all requests failed; is this the right --base-url, --endpoint and --model?");
  }
  return 0;
}

}  // namespace reprise::cli
