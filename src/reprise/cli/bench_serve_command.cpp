#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <thread>

#include "reprise/api/options/model_files.h"
#include "reprise/base/error.h"
#include "reprise/bench/first_model.h"
#include "reprise/bench/serving_charts.h"
#include "reprise/bench/serving_report.h"
#include "reprise/bench/traffic.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/bench_options.h"
#include "reprise/cli/bench_serve_options.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/plot_option.h"
#include "reprise/cli/progress_line.h"
#include "reprise/cli/result_file.h"
#include "reprise/cli/standard_streams.h"

namespace reprise::cli {
namespace {

using bench::Backend;
using http_client::HttpCall;
using http_client::HttpClient;
using http_client::HttpReply;
using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr std::array<std::string_view, 3> kLists = {"--goodput", "--metadata", "--header"};
constexpr size_t kMaxShownErrors = 10;

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

std::filesystem::path find_tokenizer(const ServeArguments& arguments, const std::string& root) {
  for (const std::string& folder : {arguments.tokenizer, arguments.model, root}) {
    if (!folder.empty() && api::has_tokenizer(folder)) return folder;
    if (!folder.empty() && folder == arguments.tokenizer) break;
  }
  throw InvalidArgument(fmt::format(
      "{} is not a folder with a tokenizer; prompts are counted in tokens on this side: give "
      "--tokenizer DIR",
      !arguments.tokenizer.empty() ? arguments.tokenizer
      : !arguments.model.empty()   ? arguments.model
                                   : root));
}

// Sends one request after the other until the server answers one.
void wait_until_ready(HttpClient& client,
                      const bench::RequestOptions& options,
                      const bench::SampleRequest& request,
                      int32_t timeout_seconds) {
  constexpr auto kPause = std::chrono::seconds(1);
  const auto deadline = http_client::Clock::now() + std::chrono::seconds(timeout_seconds);
  print_log(LogLevel::info, "Starting initial single prompt test run...\n");
  for (;;) {
    const bench::LoadResult result =
        bench::generate_load(client, {.request = options, .send_times = {0}}, {request});
    if (result.outcomes[0].success) return;
    if (http_client::Clock::now() + kPause > deadline) {
      throw Error(fmt::format("the server did not answer a first request within {} s: {}",
                              timeout_seconds,
                              result.outcomes[0].error));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void call_profiler(HttpClient& client, const Headers& headers, const std::string& path) {
  const HttpReply reply = client.fetch({.method = "POST", .target = path, .headers = headers});
  if (reply.status == 200) return;
  print_log(LogLevel::warning, "warning: POST {}: {} {}\n", path, reply.status, reply.reason);
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
  print_log(LogLevel::info, "Result: {}\n", path.string());
}

// Checks before the load, which may take hours, that the results can be written.
void check_result_files(const ServeArguments& arguments) {
  require_writable("--plot", arguments.plot);
  if (!arguments.save_result && !arguments.append_result) return;
  const std::filesystem::path path = result_path(arguments, now_text());
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  require_writable("--save-result", path);
}

void print_traffic(const ServeArguments& arguments) {
  const bench::Traffic& traffic = arguments.traffic;
  if (arguments.self_timed == true) {
    print_log(LogLevel::info, "Traffic: at the times of the dataset\n");
  } else if (arguments.ramp_up_strategy.empty()) {
    print_log(
        LogLevel::info, "Traffic request rate: {}\n", bench::python_float(traffic.request_rate));
  } else {
    print_log(LogLevel::info,
              "Traffic ramp-up strategy: {}, from {} to {} requests per second\n",
              arguments.ramp_up_strategy,
              traffic.ramp_up_start_rps,
              traffic.ramp_up_end_rps);
  }
  print_log(LogLevel::info,
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
      print_error("Failed requests during benchmark run detected (capping to {}):\n",
                  kMaxShownErrors);
    }
    print_error("Error {}: {}\n", shown++, outcome.error);
  }
}

HttpClient make_client(const ServeArguments& arguments) {
  const bool has_url = !arguments.base_url.empty();
  const bool is_ipv6 = arguments.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? fmt::format("[{}]", arguments.host) : arguments.host;
  const std::string url =
      has_url ? arguments.base_url : fmt::format("http://{}:{}", host, arguments.port);
  raise_open_file_limit();
  return HttpClient(http_client::parse_url(has_url ? "--base-url" : "--host", url),
                    arguments.insecure ? http_client::ServerCertificate::unchecked
                                       : http_client::ServerCertificate::checked);
}

/// The times of the dataset, or those that the traffic's options give.
std::vector<double> send_times(const ServeArguments& arguments,
                               const std::vector<bench::SampleRequest>& requests,
                               bench::RandomSource& random) {
  if (arguments.self_timed != true) {
    return bench::send_times(arguments.traffic, requests.size(), random);
  }
  std::vector<double> times;
  for (const bench::SampleRequest& request : requests) times.push_back(request.send_time.value());
  return times;
}

bench::LoadOptions load_options(const ServeArguments& arguments,
                                const std::vector<bench::SampleRequest>& requests) {
  // Prompts and arrivals draw from separate random streams, so that a change of the prompts does
  // not change the arrivals.
  bench::RandomSource arrival_numbers(static_cast<uint64_t>(arguments.seed) ^ 0x9e3779b97f4a7c15U);
  const bool is_chat = arguments.backend == "openai-chat";
  return {.request = {.backend = is_chat ? Backend::chat : Backend::completions,
                      .endpoint = arguments.endpoint,
                      .model = arguments.served_model_name.empty() ? arguments.model
                                                                   : arguments.served_model_name,
                      .ignore_eos = arguments.ignore_eos,
                      .logprobs = arguments.logprobs,
                      .extra_body = arguments.extra_body,
                      .headers = arguments.headers,
                      .request_id_prefix = arguments.request_id_prefix},
          .send_times = send_times(arguments, requests, arrival_numbers),
          .max_concurrency = arguments.max_concurrency};
}

void warm_up(HttpClient& client,
             const ServeArguments& arguments,
             const bench::LoadOptions& load,
             const bench::SampleRequest& request) {
  bench::RequestOptions unmeasured = load.request;
  unmeasured.request_id_prefix += "warmup-";
  if (arguments.ready_check_timeout_sec > 0) {
    wait_until_ready(client, unmeasured, request, arguments.ready_check_timeout_sec);
  }
  if (arguments.num_warmups <= 0) return;
  const auto count = static_cast<size_t>(arguments.num_warmups);
  print_log(LogLevel::info, "Warming up with {} requests...\n", count);
  const std::vector<bench::SampleRequest> same(count, request);
  const bench::LoadOptions warmup{.request = unmeasured,
                                  .send_times = std::vector<double>(count, 0.0),
                                  .max_concurrency = arguments.max_concurrency};
  static_cast<void>(bench::generate_load(client, warmup, same));
}

bench::LoadResult measure(HttpClient& client,
                          const ServeArguments& arguments,
                          const bench::LoadOptions& load,
                          const std::vector<bench::SampleRequest>& requests) {
  if (arguments.profile) call_profiler(client, arguments.headers, "/start_profile");
  print_log(LogLevel::info, "Starting main benchmark run...\n");
  print_traffic(arguments);
  std::optional<ProgressLine> progress;
  if (!arguments.disable_tqdm) progress.emplace("Requests");
  size_t num_answered = 0;
  bench::LoadResult result = bench::generate_load(client, load, requests, [&] {
    ++num_answered;
    if (progress) progress->update(num_answered, requests.size());
  });
  if (arguments.profile) call_profiler(client, arguments.headers, "/stop_profile");
  return result;
}

// Prints and saves everything that the run measured.
void report_result(const ServeArguments& arguments,
                   const std::filesystem::path& tokenizer,
                   const bench::LoadResult& result,
                   const bench::ServingMetrics& metrics) {
  const bench::ReportOptions report{.request_rate = arguments.traffic.request_rate,
                                    .max_concurrency = arguments.max_concurrency,
                                    .shows_goodput = arguments.goodput.is_asked_for(),
                                    .metrics = split_commas(arguments.percentile_metrics)};
  print_failures(result);
  const std::string block = console_block(metrics, report);
  fmt::print("{}", block);
  std::fflush(stdout);
  if (arguments.save_result || arguments.append_result) {
    const std::string date = now_text();
    const Json measured = to_json(metrics, report, result, arguments.save_detailed);
    save(arguments, result_json(arguments, tokenizer, date, measured), date);
  }
  write_plot(arguments.plot,
             fmt::format("{}: {} requests", arguments.model, result.outcomes.size()),
             block,
             serving_charts(result));
}

}  // namespace

int run_bench_serve(std::span<const std::string> raw_arguments) {
  ServeArguments arguments;
  const OptionTable table = bench_serve_table(arguments);
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
  HttpClient client = make_client(arguments);
  std::string root;
  if (arguments.model.empty()) {
    const bench::ServerModel first = bench::first_model(client, "/v1/models", arguments.headers);
    arguments.model = first.id;
    root = first.root;
  }
  check_result_files(arguments);
  const std::filesystem::path tokenizer_folder = find_tokenizer(arguments, root);
  const PromptMaker prompts(tokenizer_folder);
  bench::RandomSource prompt_numbers(static_cast<uint64_t>(arguments.seed));
  const bool is_chat = arguments.backend == "openai-chat";
  const std::vector<bench::SampleRequest> requests =
      make_requests(arguments.dataset, prompts.tools(is_chat), prompt_numbers);
  const bench::LoadOptions load = load_options(arguments, requests);
  warm_up(client, arguments, load, requests[0]);
  const bench::LoadResult result = measure(client, arguments, load, requests);
  const bench::ServingMetrics metrics =
      compute_metrics(result, percents, arguments.goodput, [&prompts](std::string_view text) {
        return static_cast<int64_t>(
            prompts.tokenizer().encode(text, {.add_special_tokens = false}).size());
      });
  report_result(arguments, tokenizer_folder, result, metrics);
  if (metrics.completed == 0) {
    throw Error("all requests failed; is this the right --base-url, --endpoint and --model?");
  }
  return 0;
}

}  // namespace reprise::cli
