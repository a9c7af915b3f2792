#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "reprise/base/error.h"
#include "reprise/bench/first_model.h"
#include "reprise/bench/stream_reader.h"
#include "reprise/cli/bench_options.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/http_client/http_client.h"

namespace reprise::cli {
namespace {

using http_client::Clock;

constexpr const char* kAnswers = "Answers";

struct ClientArguments {
  std::string url = "http://localhost:8000/v1";
  std::string model_name;
  std::string api_key;
  std::string quick;
  std::string system_prompt;
  std::optional<int32_t> max_tokens;
  Json sampling = Json::object();
  bool stats = false;
};

OptionTable make_table(ClientArguments& arguments, bool is_chat) {
  OptionTable table(fmt::format("reprise {} [options]", is_chat ? "chat" : "complete"),
                    is_chat ? "Chats with the model of a running OpenAI server. Ctrl-C stops an "
                              "answer, Ctrl-D ends the program."
                            : "Lets the model of a running OpenAI server continue each line. "
                              "Ctrl-C stops an answer, Ctrl-D ends the program.");
  table.add_text("url", kServer, "URL", "URL of the API, with its /v1.", arguments.url);
  table.add({.name = "model-name",
             .group = kServer,
             .value_name = "NAME",
             .help = "Name of the model.",
             .default_text = "the server's first",
             .apply = [&arguments](std::string_view value) { arguments.model_name = value; }});
  table.add({.name = "api-key",
             .group = kServer,
             .value_name = "KEY",
             .help = "Key of the server. Other users can see it in the list of processes: "
                     "OPENAI_API_KEY is safer.",
             .apply = [&arguments](std::string_view value) { arguments.api_key = value; }});
  table.add({.name = "quick",
             .short_name = "-q",
             .group = kAnswers,
             .value_name = "TEXT",
             .help = "Answer this message, then end.",
             .apply = [&arguments](std::string_view value) { arguments.quick = value; }});
  if (is_chat) {
    table.add_text("system-prompt",
                   kAnswers,
                   "TEXT",
                   "System message at the beginning.",
                   arguments.system_prompt);
  }
  add_optional_integer(
      table, "max-tokens", kAnswers, "Longest answer, in tokens.", arguments.max_tokens, 1);
  table.add({.name = "temperature",
             .group = kAnswers,
             .value_name = "X",
             .help = "0 = always the likeliest token.",
             .default_text = "the server's",
             .apply = [&arguments](std::string_view value) {
               arguments.sampling["temperature"] = parse_number("--temperature", value);
             }});
  table.add_switch("stats",
                   kAnswers,
                   "After each answer, print time to first token and throughput.",
                   arguments.stats);
  return table;
}

/// The client of one server, which prints its answers to the terminal.
class TerminalClient {
 public:
  TerminalClient(const ClientArguments& arguments, bool is_chat)
      : arguments_(&arguments),
        is_chat_(is_chat),
        client_(http_client::parse_url("--url", arguments.url)) {
    std::string key = arguments.api_key;
    if (const char* from_environment = std::getenv("OPENAI_API_KEY");
        key.empty() && from_environment != nullptr) {
      key = from_environment;
    }
    if (!key.empty()) headers_.emplace_back("Authorization", fmt::format("Bearer {}", key));
    model_ = arguments.model_name.empty() ? bench::first_model(client_, "/models", headers_).id
                                          : arguments.model_name;
    print_error("Using model: {}\n", model_);
  }

  /// Streams the answer to stdout and returns the text that arrived. \throws Error when the server
  /// refuses the request or breaks off the answer
  std::string answer(Json body) {
    body["model"] = model_;
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    body.update(arguments_->sampling);
    if (arguments_->max_tokens) {
      body[is_chat_ ? "max_completion_tokens" : "max_tokens"] = *arguments_->max_tokens;
    }
    State state;
    bench::StreamReader reader([&](std::string_view data) { take(state, data); });
    client_.send({.method = "POST",
                  .target = is_chat_ ? "/chat/completions" : "/completions",
                  .headers = headers_,
                  .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)},
                 {.on_head = [&](const http_client::HttpHead& head) { state.status = head.status; },
                  .on_piece =
                      [&](std::string_view piece) {
                        if (state.status == 200) {
                          reader.feed(piece);
                        } else if (state.refusal.size() < kMaxRefusalBytes) {
                          state.refusal += piece;
                        }
                      },
                  .on_end = [&](const std::string& error) { state.error = error; }});
    const Clock::time_point begin = Clock::now();
    const bool was_interrupted = client_.run_interruptible();
    fmt::print("\n");
    std::fflush(stdout);
    if (!was_interrupted) check(state);
    if (was_interrupted) print_error("(stopped)\n");
    if (arguments_->stats) print_stats(state, begin);
    return std::move(state.text);
  }

 private:
  static constexpr size_t kMaxRefusalBytes = 4096;

  struct State {
    int status = 0;
    std::string refusal;  // the body of an answer that is not 200
    std::string error;
    std::string text;
    int64_t num_chunks = 0;
    std::optional<int64_t> num_tokens;
    Clock::time_point first;
    Clock::time_point last;
  };

  static void take(State& state, std::string_view data) {
    const bench::StreamMessage message = bench::parse_stream_message(data);
    if (!message.error.empty()) throw Error(fmt::format("the server: {}", message.error));
    if (message.completion_tokens) state.num_tokens = message.completion_tokens;
    if (!message.has_choice) return;
    state.last = Clock::now();
    if (state.num_chunks++ == 0) state.first = state.last;
    state.text += message.text;
    fmt::print("{}", message.text);
    std::fflush(stdout);
  }

  static void check(const State& state) {
    if (!state.error.empty()) throw Error(state.error);
    if (state.status == 200) return;
    const Json body = Json::parse(state.refusal, nullptr, false);
    const auto message = Json::json_pointer("/error/message");
    const bool has_message =
        body.is_object() && body.contains(message) && body[message].is_string();
    throw Error(fmt::format("the server answered {}: {}",
                            state.status,
                            has_message ? body[message].get<std::string>() : state.refusal));
  }

  static void print_stats(const State& state, Clock::time_point begin) {
    if (state.num_chunks == 0) return;
    const auto seconds = [](Clock::duration time) {
      return std::chrono::duration<double>(time).count();
    };
    const int64_t tokens = state.num_tokens.value_or(state.num_chunks);
    const double total = seconds(state.last - begin);
    print_error("TTFT {:.1f} ms, {} tokens, {:.1f} tokens/s\n",
                seconds(state.first - begin) * 1e3,
                tokens,
                total > 0 ? static_cast<double>(tokens) / total : 0);
  }

  const ClientArguments* arguments_;
  bool is_chat_;
  http_client::HttpClient client_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::string model_;
};

Json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

/// Reads the next line of standard input; prints a prompt first when standard input is a terminal.
bool read_line(std::string& line) {
  if (isatty(0) != 0) {
    fmt::print("> ");
    std::fflush(stdout);
  }
  return static_cast<bool>(std::getline(std::cin, line));
}

int run_client(std::span<const std::string> raw_arguments, bool is_chat) {
  ClientArguments arguments;
  const OptionTable table = make_table(arguments, is_chat);
  if (OptionTable::asks_for_help(raw_arguments)) {
    fmt::print("{}", table.help_text(raw_arguments));
    return 0;
  }
  const std::vector<std::string> positional = table.parse(raw_arguments);
  if (!positional.empty()) {
    throw InvalidArgument(fmt::format("unexpected argument '{}'", positional[0]));
  }
  TerminalClient client(arguments, is_chat);
  Json conversation = Json::array();
  if (!arguments.system_prompt.empty()) {
    conversation.push_back(message("system", arguments.system_prompt));
  }
  const auto ask = [&](const std::string& text) {
    if (!is_chat) {
      client.answer({{"prompt", text}});
      return;
    }
    conversation.push_back(message("user", text));
    try {
      const std::string answer = client.answer({{"messages", conversation}});
      conversation.push_back(message("assistant", answer));
    } catch (const Error&) {
      conversation.erase(conversation.size() - 1);  // removes the question that got no answer
      throw;
    }
  };
  if (!arguments.quick.empty()) {
    ask(arguments.quick);
    return 0;
  }
  print_error(
      "{}\n",
      is_chat ? "Please enter a message for the chat model:" : "Please enter prompt to complete:");
  std::string line;
  while (read_line(line)) {
    if (line.empty()) continue;
    try {
      ask(line);
    } catch (const Error& error) {
      print_error("error: {}\n", error.what());
    }
  }
  return 0;
}

}  // namespace

int run_chat(std::span<const std::string> arguments) { return run_client(arguments, true); }
int run_complete(std::span<const std::string> arguments) { return run_client(arguments, false); }

}  // namespace reprise::cli
