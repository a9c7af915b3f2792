#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "reprise/api/async_engine.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/http_options.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/rank_session.h"
#include "reprise/cli/result_file.h"
#include "reprise/server/local_api.h"

namespace reprise::cli {
namespace {

// The URLs of vLLM's run-batch, and the other routes for vectors.
constexpr auto kUrls = std::to_array<std::string_view>({"/v1/chat/completions",
                                                        "/v1/completions",
                                                        "/v1/embeddings",
                                                        "/pooling",
                                                        "/classify",
                                                        "/score",
                                                        "/v1/score",
                                                        "/rerank",
                                                        "/v1/rerank",
                                                        "/v2/rerank"});

constexpr const char* kBatch = "Batch";
constexpr std::string_view kStandardInput = "/dev/stdin";
constexpr std::string_view kStandardOutput = "/dev/stdout";
constexpr size_t kMaxLineBytes = size_t{16} << 20;
constexpr size_t kMaxLineParts = 400'000;       // more than a body may have
constexpr int32_t kMaxRequestsInFlight = 1024;  // bounds the memory for any size of input file

struct BatchArguments {
  api::EngineArgs engine;
  server::ServerOptions server;
  std::string input_file;
  std::string output_file;
  std::vector<std::string> served_model_names;
  bool verbose = false;
};

OptionTable make_table(BatchArguments& arguments) {
  OptionTable table("reprise run-batch MODEL -i FILE -o FILE [options]",
                    "Answers a file of requests in OpenAI's batch format, without a server. Errors "
                    "of single requests are in the output file and in the last line of the log; "
                    "the exit code is 0 all the same, as in vLLM.");
  table.add({.name = "input-file",
             .short_name = "-i",
             .group = kBatch,
             .value_name = "FILE",
             .help = "One request per line: custom_id, method, url, body. -: standard input.",
             .apply = [&arguments](std::string_view value) {
               arguments.input_file = value == "-" ? kStandardInput : value;
             }});
  table.add({.name = "output-file",
             .short_name = "-o",
             .group = kBatch,
             .value_name = "FILE",
             .help = "One answer per line, in the same order; an existing file is overwritten. "
                     "-: standard output.",
             .apply = [&arguments](std::string_view value) {
               arguments.output_file = value == "-" ? kStandardOutput : value;
             }});
  table.add({.name = "served-model-name",
             .group = kBatch,
             .value_name = "NAME",
             .help = "Name of the model in requests; repeated: aliases.",
             .default_text = "the path as given",
             .apply = [&arguments](std::string_view value) {
               arguments.served_model_names.emplace_back(value);
             }});
  add_answer_limit(table, kBatch, arguments.server.generations.max_answer_bytes);
  table.add_switch("verbose", kBatch, "Say more about start-up.", arguments.verbose);
  add_engine_options(table, arguments.engine);
  return table;
}

/// Reads the lines of a file and refuses lines above the length limit.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : file_(path, std::ios::binary) {
    if (!file_ || std::filesystem::is_directory(path)) {
      throw FileError("E_BATCH", path, "", "is not a file that can be read");
    }
  }
  /// Returns false at the end. For a line that is too long, `line` is empty and `is_too_long` is
  /// set.
  bool next(std::string& line, bool& is_too_long) {
    line.clear();
    is_too_long = false;
    int c = file_.get();
    if (c == EOF) return false;
    for (; c != EOF && c != '\n'; c = file_.get()) {
      if (line.size() == kMaxLineBytes) is_too_long = true;
      if (!is_too_long) line.push_back(static_cast<char>(c));
    }
    if (is_too_long) line.clear();
    return true;
  }

 private:
  std::ifstream file_;
};

/// The output line of one request when its answer has arrived.
struct Answer {
  Json custom_id = nullptr;
  int status = 0;  // 0: not answered yet
  std::string body;
};

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Answer refusal(Json custom_id, size_t line, const std::string& why) {
  const Json error = {{"error",
                       {{"message", fmt::format("line {}: {}", line, why)},
                        {"type", "BadRequestError"},
                        {"param", nullptr},
                        {"code", 400}}}};
  return {.custom_id = std::move(custom_id), .status = 400, .body = json_text(error)};
}

class BatchRun {
 public:
  BatchRun(server::LocalApi& api, const BatchArguments& arguments, int32_t num_in_flight)
      : api_(&api),
        reader_(arguments.input_file),
        // Standard output may be a file that the shell opened with >>. Its content must stay.
        output_(arguments.output_file,
                arguments.output_file == kStandardOutput ? std::ios::binary | std::ios::app
                                                         : std::ios::binary | std::ios::trunc),
        path_(arguments.output_file),
        window_(static_cast<size_t>(num_in_flight)) {
    if (!output_) throw FileError("E_BATCH", path_, "", "cannot be written");
  }

  void run() {
    std::string line;
    bool is_too_long = false;
    size_t number = 0;
    while (reader_.next(line, is_too_long)) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos && !is_too_long) continue;
      // Answers are written in order, so at most `window_` of them are kept.
      while (pending_.size() == window_) wait_and_write();
      pending_.emplace_back();
      if (is_too_long) {
        pending_.back() = refusal(nullptr, number, "is longer than 16 MiB");
      } else {
        submit(line, number, pending_.back());
      }
      write_finished();
    }
    while (!pending_.empty()) wait_and_write();
    output_.close();
    if (!output_) throw FileError("E_BATCH", path_, "", "the answers could not all be written");
  }

  [[nodiscard]] size_t num_answers() const noexcept { return num_answers_; }
  [[nodiscard]] size_t num_failed() const noexcept { return num_failed_; }

 private:
  /// Notes members of a line that have no effect. Each name is noted once.
  void note_unused(const Json& request) {
    constexpr size_t kMaxNoted = 16;
    for (const auto& [name, value] : request.items()) {
      const bool is_read =
          name == "custom_id" || name == "method" || name == "url" || name == "body";
      if (is_read || noted_.size() == kMaxNoted || !noted_.insert(name).second) continue;
      print_log(LogLevel::warning,
                "the input has lines with the member {}, which has no effect\n",
                json_text(name));
    }
  }

  // The address of `answer` stays valid: a deque does not move its elements.
  void submit(const std::string& line, size_t number, Answer& answer) {
    Json request;
    try {
      request = parse_json(line, "request", {.max_parts = kMaxLineParts});
    } catch (const InvalidArgument& error) {
      answer = refusal(nullptr, number, error.what());
      return;
    }
    const auto text = [&](const char* name) -> const std::string* {
      const auto found = request.is_object() ? request.find(name) : request.end();
      const bool is_text = request.is_object() && found != request.end() && found->is_string();
      return is_text ? found->get_ptr<const std::string*>() : nullptr;
    };
    const std::string* custom_id = text("custom_id");
    const std::string* method = text("method");
    const std::string* url = text("url");
    if (custom_id == nullptr) {
      answer = refusal(nullptr, number, "expected an object with the string \"custom_id\"");
    } else if (method == nullptr || *method != "POST") {
      answer = refusal(*custom_id, number, "\"method\" must be \"POST\"");
    } else if (url == nullptr || std::ranges::find(kUrls, *url) == kUrls.end()) {
      answer = refusal(
          *custom_id, number, fmt::format("\"url\" must be one of {}", fmt::join(kUrls, ", ")));
    } else if (!request.contains("body") || !request["body"].is_object()) {
      answer = refusal(*custom_id, number, "\"body\" must be an object");
    } else if (request["body"].contains("stream") && request["body"]["stream"] == true) {
      answer = refusal(*custom_id, number, "Request must not be sent in stream mode");
    } else {
      note_unused(request);
      answer.custom_id = *custom_id;
      api_->post(*url, json_text(request["body"]), [&answer](const server::HttpResponse& response) {
        answer.status = response.status;
        answer.body = response.body;
      });
    }
  }

  void wait_and_write() {
    if (pending_.front().status == 0) api_->wait();
    write_finished();
  }

  void write_finished() {
    while (!pending_.empty() && pending_.front().status != 0) {
      write(pending_.front());
      pending_.pop_front();
    }
  }

  void write(const Answer& answer) {
    const Json body = Json::parse(answer.body, nullptr, false);
    const bool is_good = answer.status == 200;
    const Json line = {{"id", fmt::format("vllm-{:016x}", random_ids_())},
                       {"custom_id", answer.custom_id},
                       {"response",
                        {{"status_code", answer.status},
                         {"request_id", fmt::format("vllm-batch-{:016x}", random_ids_())},
                         {"body", is_good ? body : Json(nullptr)}}},
                       {"error", is_good ? Json(nullptr) : body}};
    output_ << json_text(line) << "\n";
    output_.flush();
    ++num_answers_;
    if (!is_good) ++num_failed_;
  }

  server::LocalApi* api_;
  LineReader reader_;
  std::ofstream output_;
  std::string path_;
  size_t window_;
  std::deque<Answer> pending_;  // in the order of the lines
  std::set<std::string> noted_;
  std::mt19937_64 random_ids_{std::random_device{}()};
  size_t num_answers_ = 0;
  size_t num_failed_ = 0;
};

void check_path(const char* option, const std::string& path) {
  if (path.empty()) throw InvalidArgument(fmt::format("run-batch needs {} FILE", option));
  if (path.starts_with("http://") || path.starts_with("https://")) {
    throw InvalidArgument(
        fmt::format("{}: {} is a URL; only files are read and written here", option, path));
  }
}

}  // namespace

int run_run_batch(std::span<const std::string> raw_arguments) {
  BatchArguments arguments;
  const OptionTable table = make_table(arguments);
  if (!parse_model_command(table, raw_arguments, "run-batch", arguments.engine.model)) return 0;
  check_path("--input-file", arguments.input_file);
  check_path("--output-file", arguments.output_file);
  if (arguments.input_file == arguments.output_file) {
    throw InvalidArgument("--output-file: is the input file, which would be lost");
  }
  // checks the files before the model is loaded
  static_cast<void>(LineReader(arguments.input_file));
  require_writable("--output-file", arguments.output_file);

  RankSession ranks(arguments.engine);
  if (ranks.is_elsewhere()) return ranks.run(arguments.engine);
  server::ServerOptions& options = arguments.server;
  options.model.path = options.model.root = arguments.engine.model.string();
  options.model.names = arguments.served_model_names;
  if (options.model.names.empty()) options.model.names = {options.model.root};
  options.generations.max_num_seqs = arguments.engine.max_num_seqs;
  // One request may ask for up to 256 answers (n), so the limit covers all requests in flight.
  options.generations.max_waiting_requests = kMaxRequestsInFlight * 256;

  StartupProgress progress(arguments.verbose);
  api::AsyncEngine engine(arguments.engine, progress.observer());
  print_warnings(engine.startup_report());
  server::LocalApi api(options, engine);
  BatchRun run(api, arguments, std::min(4 * arguments.engine.max_num_seqs, kMaxRequestsInFlight));
  run.run();
  print_log(LogLevel::info,
            "{} requests answered, {} of them with an error: {}\n",
            run.num_answers(),
            run.num_failed(),
            arguments.output_file);
  return 0;
}

}  // namespace reprise::cli
