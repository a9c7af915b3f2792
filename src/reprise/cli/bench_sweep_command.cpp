#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <fstream>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/bench/chart.h"
#include "reprise/bench/statistics.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/child_process.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/cli/sweep_graphs.h"
#include "reprise/cli/sweep_plan.h"

namespace reprise::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kGrid = "Grid";
constexpr int kStopSeconds = 20;

struct SweepArguments {
  std::string preset;
  std::string serve_cmd;
  std::string bench_cmd;
  std::string serve_params;
  std::string bench_params;
  std::string output_dir = "results";
  int32_t num_runs = 3;
  int32_t server_ready_timeout = 300;
  bool interleave = false;
  bool show_stdout = false;
  bool dry_run = false;
};

OptionTable make_table(SweepArguments& arguments) {
  OptionTable table("reprise bench sweep --serve-cmd TEXT --bench-cmd TEXT [options]",
                    "Runs a grid of servers and loads, starts the servers itself, and puts medians "
                    "of all runs into one table and one page.");
  table.add_text("preset",
                 kGrid,
                 "NAME",
                 "cudagraph-modes: NONE, PIECEWISE and FULL_AND_PIECEWISE, interleaved, under 100 "
                 "requests of some 233 + 217 tokens at 20 per second. capture-sizes: the rules "
                 "reprise and measured, interleaved, with 1 to 33 requests at the same time.",
                 arguments.preset);
  table.add_text("serve-cmd",
                 kGrid,
                 "TEXT",
                 "Command that starts a server, such as 'reprise serve MODEL --dtype float32'.",
                 arguments.serve_cmd);
  table.add_text("bench-cmd",
                 kGrid,
                 "TEXT",
                 "Command that sends the load, such as 'reprise bench serve --num-prompts 100'; "
                 "the server's address is added.",
                 arguments.bench_cmd);
  table.add_text("serve-params",
                 kGrid,
                 "JSON",
                 "File or JSON text: a list of objects of options, or an object of named ones; one "
                 "server for each.",
                 arguments.serve_params);
  table.add_text("bench-params",
                 kGrid,
                 "JSON",
                 "The same for the loads of --bench-cmd.",
                 arguments.bench_params);
  table.add_integer(
      "num-runs", kGrid, "Runs of each combination of server and load.", arguments.num_runs);
  table.add_switch(
      "interleave",
      kGrid,
      "Start all servers and take turns, so that a noisy machine disturbs all runs alike.",
      arguments.interleave);
  table.add_integer("server-ready-timeout",
                    kGrid,
                    "Seconds that a server may take to be ready.",
                    arguments.server_ready_timeout);
  table.add({.name = "output-dir",
             .short_name = "-o",
             .group = kResults,
             .value_name = "DIR",
             .help = "Folder for the JSON of every run, summary.json and sweep.html.",
             .default_text = arguments.output_dir,
             .apply = [&arguments](std::string_view value) { arguments.output_dir = value; }});
  table.add_switch("show-stdout", kResults, "Show the report of every run.", arguments.show_stdout);
  table.add_switch("dry-run", kResults, "Print the commands, and run nothing.", arguments.dry_run);
  return table;
}

/// Each load keeps one number of requests running, which most loads of the rule reprise pad.
void apply_capture_sizes(SweepArguments& arguments) {
  arguments.interleave = true;
  if (arguments.serve_params.empty()) {
    Json rules = Json::array();
    for (const char* rule : {"reprise", "measured"}) {
      rules.push_back(
          {{"_benchmark_name", rule}, {"compilation_config", {{"capture_size_rule", rule}}}});
    }
    arguments.serve_params = rules.dump();
  }
  if (arguments.bench_cmd.empty()) {
    arguments.bench_cmd = "--random-input-len 16 --random-output-len 64 --ignore-eos";
  }
  if (arguments.bench_params.empty()) {
    Json loads = Json::array();
    for (const int requests : {1, 3, 5, 9, 13, 17, 25, 33}) {
      loads.push_back({{"_benchmark_name", fmt::format("{} requests", requests)},
                       {"max_concurrency", requests},
                       {"num_prompts", 4 * requests}});
    }
    arguments.bench_params = loads.dump();
  }
}

void apply_preset(SweepArguments& arguments) {
  if (arguments.preset.empty()) return;
  if (arguments.preset == "capture-sizes") return apply_capture_sizes(arguments);
  if (arguments.preset != "cudagraph-modes") {
    throw InvalidArgument(fmt::format("--preset: '{}' is not one of cudagraph-modes, capture-sizes",
                                      arguments.preset));
  }
  arguments.interleave = true;
  if (arguments.serve_params.empty()) {
    Json modes = Json::object();
    for (const char* mode : {"NONE", "PIECEWISE", "FULL_AND_PIECEWISE"}) {
      modes[mode] = {{"compilation_config", {{"cudagraph_mode", mode}}}};
    }
    arguments.serve_params = modes.dump();
  }
  if (arguments.bench_cmd.empty()) {
    arguments.bench_cmd =
        "--num-prompts 100 --random-input-len 233 --random-output-len 217 --random-range-ratio 0.3 "
        "--request-rate 20 --num-warmups 4";
  }
}

/// The words after "reprise serve" or "vllm serve"; both program names are accepted.
std::vector<std::string> command_words(const char* option,
                                       const std::string& text,
                                       const std::vector<std::string>& command) {
  std::vector<std::string> words = split_words(option, text);
  if (!words.empty() && (words[0] == "reprise" || words[0] == "vllm")) words.erase(words.begin());
  for (const std::string& word : command) {
    if (!words.empty() && words[0] == word) words.erase(words.begin());
  }
  return words;
}

std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> parts) {
  std::vector<std::string> words;
  for (const auto& part : parts) words.insert(words.end(), part.begin(), part.end());
  return words;
}

std::string value_after(const std::vector<std::string>& words, std::string_view option) {
  const auto found = std::find(words.begin(), words.end(), option);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

/// A server on a free port of this machine.
class Server {
 public:
  Server(const std::vector<std::string>& words, std::filesystem::path log)
      : log_(std::move(log)),
        process_(
            joined({{"serve"}, words, {"--host", "127.0.0.1", "--port", "0"}}), "/dev/null", log_) {
  }
  ~Server() { process_.stop(kStopSeconds); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// \throws Error with the end of the server's log
  void wait_until_ready(int timeout_seconds) {
    const auto deadline = Clock::now() + std::chrono::seconds(timeout_seconds);
    for (;;) {
      const std::string log = read_text(log_);
      if (log.find("Application startup complete.") != std::string::npos) return find_port(log);
      const bool is_running = process_.is_running();
      if (!is_running || Clock::now() > deadline) {
        throw Error(fmt::format("a server {}:\n{}",
                                is_running ? "was not ready in time" : "did not start",
                                log.substr(log.size() - std::min<size_t>(log.size(), 2000))));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  [[nodiscard]] const std::string& port() const noexcept { return port_; }

 private:
  void find_port(const std::string& log) {
    constexpr std::string_view kAddress = "http://127.0.0.1:";
    const size_t found = log.find(kAddress);
    if (found == std::string::npos) throw Error("a server did not say where it listens");
    for (size_t i = found + kAddress.size(); i < log.size() && std::isdigit(log[i]) != 0; ++i) {
      port_ += log[i];
    }
  }

  std::filesystem::path log_;
  ChildProcess process_;
  std::string port_;
};

struct Cell {
  std::vector<Json> runs;
};

class Sweep {
 public:
  explicit Sweep(const SweepArguments& arguments)
      : arguments_(&arguments),
        serve_words_(command_words("--serve-cmd", arguments.serve_cmd, {"serve"})),
        bench_words_(command_words("--bench-cmd", arguments.bench_cmd, {"bench", "serve"})),
        servers_(parse_sweep_points("--serve-params", arguments.serve_params)),
        loads_(parse_sweep_points("--bench-params", arguments.bench_params)),
        cells_(servers_.size(), std::vector<Cell>(loads_.size())),
        graphs_(servers_.size()) {}

  void describe() const {
    for (const SweepPoint& server : servers_) {
      fmt::print("reprise serve {}\n", fmt::join(joined({serve_words_, server.arguments}), " "));
      for (const SweepPoint& load : loads_) {
        fmt::print("  {} x reprise bench serve {}\n",
                   arguments_->num_runs,
                   fmt::join(joined({bench_words_, load.arguments}), " "));
      }
    }
  }

  void run() {
    std::filesystem::create_directories(arguments_->output_dir);
    if (arguments_->interleave) {
      std::deque<Server> alive;
      for (size_t i = 0; i < servers_.size(); ++i) start(alive, i);
      for (int32_t run = 0; run < arguments_->num_runs; ++run) {
        for (size_t load = 0; load < loads_.size(); ++load) {
          // The first server of a round rotates, so that no server always runs after the same other
          // server.
          for (size_t i = 0; i < servers_.size(); ++i) {
            const size_t turn = (i + static_cast<size_t>(run)) % servers_.size();
            measure(alive[turn], turn, load, run);
          }
        }
      }
      return;
    }
    for (size_t i = 0; i < servers_.size(); ++i) {
      std::deque<Server> alive;
      start(alive, i);
      for (size_t load = 0; load < loads_.size(); ++load) {
        for (int32_t run = 0; run < arguments_->num_runs; ++run) measure(alive[0], i, load, run);
      }
    }
  }

  [[nodiscard]] std::string tables() const;
  /// The cost of a token under each load, in one table; empty if there is only one load.
  [[nodiscard]] std::string token_times() const;
  [[nodiscard]] std::string graphs() const {
    std::vector<std::string> names;
    for (const SweepPoint& server : servers_) names.push_back(server.name);
    return graphs_table(names, graphs_);
  }
  [[nodiscard]] Json summary() const;
  [[nodiscard]] std::vector<bench::Chart> charts() const;

 private:
  void start(std::deque<Server>& alive, size_t index) {
    print_log(LogLevel::info, "Starting the server {}\n", servers_[index].name);
    alive.emplace_back(
        joined({serve_words_, servers_[index].arguments}),
        std::filesystem::path(arguments_->output_dir) / fmt::format("server-{}.log", index));
    alive.back().wait_until_ready(arguments_->server_ready_timeout);
    graphs_[index] = fetch_graphs(alive.back().port());
  }

  void measure(const Server& server, size_t serve_index, size_t load_index, int32_t run) {
    print_log(LogLevel::info,
              "{}, {}, run {} of {}\n",
              servers_[serve_index].name,
              loads_[load_index].name,
              run + 1,
              arguments_->num_runs);
    const std::filesystem::path folder = arguments_->output_dir;
    const std::string name = fmt::format("run-s{}-b{}-r{}", serve_index, load_index, run);
    std::vector<std::string> words = joined({{"bench", "serve"},
                                             bench_words_,
                                             loads_[load_index].arguments,
                                             {"--host", "127.0.0.1", "--port", server.port()},
                                             {"--percentile-metrics", "ttft,tpot,itl,e2el"},
                                             {"--save-result", "--disable-tqdm"},
                                             {"--result-dir", folder.string()},
                                             {"--result-filename", name + ".json"}});
    const std::string tokenizer = value_after(serve_words_, "--tokenizer");
    if (!tokenizer.empty() && value_after(bench_words_, "--tokenizer").empty()) {
      words.insert(words.end(), {"--tokenizer", tokenizer});
    }
    ChildProcess child(words, folder / (name + ".out"), folder / (name + ".err"));
    if (child.wait() != 0) {
      throw Error(fmt::format("a run failed:\n{}", read_text(folder / (name + ".err"))));
    }
    if (arguments_->show_stdout) print_error("{}", read_text(folder / (name + ".out")));
    cells_[serve_index][load_index].runs.push_back(
        parse_json(read_text(folder / (name + ".json")), "a run's result"));
  }

  [[nodiscard]] std::vector<double> values(size_t serve, size_t load, const char* key) const {
    std::vector<double> found;
    for (const Json& run : cells_[serve][load].runs) {
      if (run.contains(key) && run[key].is_number()) found.push_back(run[key]);
    }
    return found;
  }

  const SweepArguments* arguments_;
  std::vector<std::string> serve_words_;
  std::vector<std::string> bench_words_;
  std::vector<SweepPoint> servers_;
  std::vector<SweepPoint> loads_;
  std::vector<std::vector<Cell>> cells_;  // [server][load]
  std::vector<Json> graphs_;              // [server]
};

struct Row {
  const char* title;  // the name in the block of results
  const char* key;
};
constexpr std::array kRows = {Row{"Successful requests", "completed"},
                              Row{"Failed requests", "failed"},
                              Row{"Benchmark duration (s)", "duration"},
                              Row{"Total input tokens", "total_input_tokens"},
                              Row{"Total generated tokens", "total_output_tokens"},
                              Row{"Request throughput (req/s)", "request_throughput"},
                              Row{"Output token throughput (tok/s)", "output_throughput"},
                              Row{"Total token throughput (tok/s)", "total_token_throughput"},
                              Row{"Mean TTFT (ms)", "mean_ttft_ms"},
                              Row{"Median TTFT (ms)", "median_ttft_ms"},
                              Row{"P99 TTFT (ms)", "p99_ttft_ms"},
                              Row{"Mean TPOT (ms)", "mean_tpot_ms"},
                              Row{"Median TPOT (ms)", "median_tpot_ms"},
                              Row{"P99 TPOT (ms)", "p99_tpot_ms"},
                              Row{"Mean ITL (ms)", "mean_itl_ms"},
                              Row{"Median ITL (ms)", "median_itl_ms"},
                              Row{"P99 ITL (ms)", "p99_itl_ms"}};
// These values are compared with the first server's, run by run.
constexpr std::array kRatios = {Row{"Output token throughput", "output_throughput"},
                                Row{"Mean TPOT", "mean_tpot_ms"},
                                Row{"Mean ITL", "mean_itl_ms"}};

std::string spread_text(const std::vector<double>& values) {
  if (values.empty()) return "-";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool is_count = *low == *high && *low == std::floor(*low);
  return is_count ? fmt::format("{:.0f}", *low)
                  : fmt::format("{:.2f} ({:.2f}..{:.2f})", bench::median(values), *low, *high);
}

std::string Sweep::tables() const {
  std::string text;
  for (size_t load = 0; load < loads_.size(); ++load) {
    text += fmt::format("{}, median (least..most) of {} runs{}\n\n| |",
                        loads_[load].name == "default" ? "Load" : loads_[load].name,
                        arguments_->num_runs,
                        arguments_->interleave ? ", servers taking turns" : "");
    for (const SweepPoint& server : servers_) text += fmt::format(" {} |", server.name);
    text += "\n|---|";
    for (size_t i = 0; i < servers_.size(); ++i) text += "---|";
    text += "\n";
    for (const Row& row : kRows) {
      text += fmt::format("| {} |", row.title);
      for (size_t i = 0; i < servers_.size(); ++i) {
        text += fmt::format(" {} |", spread_text(values(i, load, row.key)));
      }
      text += "\n";
    }
    for (const Row& row : kRatios) {
      if (servers_.size() < 2) break;
      text += fmt::format("| {}, against {} |", row.title, servers_[0].name);
      const std::vector<double> first = values(0, load, row.key);
      for (size_t i = 0; i < servers_.size(); ++i) {
        std::vector<double> ratios = values(i, load, row.key);
        for (size_t k = 0; k < ratios.size() && k < first.size(); ++k) ratios[k] /= first[k];
        text += fmt::format(" {:.3f}x |", bench::median(ratios));
      }
      text += "\n";
    }
    text += "\n";
  }
  return text;
}

std::string Sweep::token_times() const {
  if (loads_.size() < 2) return "";
  std::string text = "Mean TPOT (ms) by load\n\n| |";
  for (const SweepPoint& server : servers_) text += fmt::format(" {} |", server.name);
  text += "\n|---|";
  for (size_t i = 0; i < servers_.size(); ++i) text += "---|";
  text += "\n";
  for (size_t load = 0; load < loads_.size(); ++load) {
    text += fmt::format("| {} |", loads_[load].name);
    for (size_t i = 0; i < servers_.size(); ++i) {
      text += fmt::format(" {} |", spread_text(values(i, load, "mean_tpot_ms")));
    }
    text += "\n";
  }
  return text + "\n";
}

Json Sweep::summary() const {
  Json json = {{"serve_cmd", arguments_->serve_cmd},
               {"bench_cmd", arguments_->bench_cmd},
               {"interleaved", arguments_->interleave},
               {"points", Json::array()}};
  for (size_t i = 0; i < servers_.size(); ++i) {
    for (size_t load = 0; load < loads_.size(); ++load) {
      json["points"].push_back({{"serve", servers_[i].name},
                                {"serve_arguments", servers_[i].arguments},
                                {"bench", loads_[load].name},
                                {"bench_arguments", loads_[load].arguments},
                                {"runs", cells_[i][load].runs}});
    }
    json["graphs"][servers_[i].name] = graphs_[i];
  }
  return json;
}

std::vector<bench::Chart> Sweep::charts() const {
  const auto curve = [&](const char* title, const char* label, const char* key) {
    bench::Chart chart{title, "output tokens per second", label, bench::Marks::dotted_line, {}};
    for (size_t i = 0; i < servers_.size(); ++i) {
      bench::Series series{.name = servers_[i].name};
      for (size_t load = 0; load < loads_.size(); ++load) {
        series.points.emplace_back(bench::median(values(i, load, "output_throughput")),
                                   bench::median(values(i, load, key)));
      }
      std::sort(series.points.begin(), series.points.end());
      chart.series.push_back(std::move(series));
    }
    return chart;
  };
  return {curve("Throughput and time per output token", "mean TPOT, ms", "mean_tpot_ms"),
          curve("Throughput and time to first token", "mean TTFT, ms", "mean_ttft_ms"),
          curve("Throughput and tail of time per output token", "P99 TPOT, ms", "p99_tpot_ms"),
          curve("Throughput and end-to-end latency", "mean E2EL, ms", "mean_e2el_ms")};
}

}  // namespace

int run_bench_sweep(std::span<const std::string> raw_arguments) {
  // "vllm bench sweep serve" means the same command.
  if (!raw_arguments.empty() && raw_arguments[0] == "serve") {
    raw_arguments = raw_arguments.subspan(1);
  }
  SweepArguments arguments;
  const OptionTable table = make_table(arguments);
  if (OptionTable::asks_for_help(raw_arguments)) {
    fmt::print("{}", table.help_text(raw_arguments));
    return 0;
  }
  const std::vector<std::string> positional = table.parse(raw_arguments);
  if (!positional.empty()) {
    throw InvalidArgument(fmt::format("unexpected argument '{}'", positional[0]));
  }
  apply_preset(arguments);
  if (arguments.serve_cmd.empty()) {
    throw InvalidArgument("bench sweep needs --serve-cmd 'reprise serve MODEL ...'");
  }
  if (arguments.num_runs < 1) throw InvalidArgument("--num-runs: is not a positive number");
  Sweep sweep(arguments);
  if (arguments.dry_run) {
    sweep.describe();
    return 0;
  }
  sweep.run();
  const std::string text = sweep.tables() + sweep.token_times() + sweep.graphs();
  const std::filesystem::path folder = arguments.output_dir;
  write_result((folder / "summary.json").string(), sweep.summary());
  std::ofstream page(folder / "sweep.html", std::ios::trunc);
  page << bench::render_page("Sweep", text, sweep.charts());
  page.close();
  if (!page) throw Error(fmt::format("{}: the page cannot be written there", folder.string()));
  fmt::print("{}", text);
  print_log(LogLevel::info, "Page: {}\n", (folder / "sweep.html").string());
  return 0;
}

}  // namespace reprise::cli
