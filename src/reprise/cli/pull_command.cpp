#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/api/options/hub_cache.h"
#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/configuration.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/progress_line.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/cli/terminal.h"
#include "reprise/hub/download/hub_connection.h"
#include "reprise/hub/download/pull.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDownload = "Download";

struct PullArguments {
  hub::PullOptions options;
  bool dry_run = false;
};

OptionTable pull_table(PullArguments& arguments) {
  OptionTable table("reprise pull ORG/NAME[:FILE] [options]",
                    "Downloads a model into the Hugging Face cache, where all commands and Hugging "
                    "Face's tools find it by its name. FILE is one GGUF, by its path or its "
                    "quantisation: reprise pull unsloth/Qwen3-0.6B-GGUF:Q4_K_M. Ctrl-C loses "
                    "nothing: the same command goes on.");
  table.add_text(
      "revision", kDownload, "NAME", "Branch, tag or commit.", arguments.options.revision);
  table.add({.name = "download-dir",
             .group = kDownload,
             .value_name = "DIR",
             .help = "Folder of the Hugging Face cache.",
             .default_text = "$HF_HUB_CACHE, else $HF_HOME/hub",
             .apply = [&arguments](std::string_view value) { arguments.options.cache = value; }});
  table.add_switch("dry-run",
                   kDownload,
                   "Say which files would be fetched and how large they are, and fetch nothing.",
                   arguments.dry_run);
  return table;
}

/// The first word of a file that holds a token; empty if the file has none.
std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// Source of the order: huggingface_hub, utils/_auth.py.
std::string find_token() {
  std::string token = look_up_process_environment("HF_TOKEN").value_or("");
  if (token.empty()) {
    std::optional<std::string> path = look_up_process_environment("HF_TOKEN_PATH");
    // The file lies beside the folder `hub`, wherever HF_HOME is; HF_HUB_CACHE alone moves only the
    // folder.
    const auto home = look_up_process_environment("HF_HOME");
    const auto cache = look_up_process_environment("XDG_CACHE_HOME");
    const auto user = look_up_process_environment("HOME");
    if (!path && home) path = *home + "/token";
    if (!path && cache) path = *cache + "/huggingface/token";
    if (!path && user) path = *user + "/.cache/huggingface/token";
    if (path) token = first_word(*path);
  }
  while (!token.empty() && token.back() <= ' ') token.pop_back();
  const bool has_bad_byte =
      std::ranges::any_of(token, [](unsigned char c) { return c <= ' ' || c >= 127; });
  if (has_bad_byte)
    throw InvalidArgument("HF_TOKEN: the token contains bytes that no token may contain");
  return token;
}

/// The names in small letters are the older convention, and still usual.
http_client::ProxyRules find_proxies() {
  auto proxy = look_up_process_environment("HTTPS_PROXY");
  if (!proxy) proxy = look_up_process_environment("https_proxy");
  auto exceptions = look_up_process_environment("NO_PROXY");
  if (!exceptions) exceptions = look_up_process_environment("no_proxy");
  return {proxy.value_or(""), exceptions.value_or("")};
}

bool is_offline() {
  const std::string value = look_up_process_environment("HF_HUB_OFFLINE").value_or("");
  return std::ranges::any_of(std::initializer_list<std::string_view>{"1", "true", "yes", "on"},
                             [&](std::string_view yes) { return equal_ignoring_case(value, yes); });
}

std::string full_name(const hub::HubName& name) {
  return name.file.empty() ? name.repository : name.repository + ":" + name.file;
}

/// Advice for a machine that cannot reach the hub.
std::string advice_without_network(const hub::PullOptions& options) {
  const std::string revision =
      options.revision == "main" ? "" : fmt::format(" --revision {}", options.revision);
  const std::string files = options.name.file.empty()
                                ? std::string()
                                : fmt::format(" --include '*{}*'", options.name.file);
  return fmt::format(
      "On a machine with access, run\n"
      "    reprise pull {0}{1}\n"
      "or  hf download {2}{1}{3}\n"
      "Then copy the folder that it filled to this machine, with its links (rsync -a, tar):\n"
      "    ~/.cache/huggingface/hub/{4}  to  {5}\n"
      "With a mirror, set HF_ENDPOINT to its address; behind a proxy, HTTPS_PROXY; for a "
      "certificate "
      "of your own network, SSL_CERT_FILE.",
      full_name(options.name),
      revision,
      options.name.repository,
      files,
      options.name.cache_folder(),
      (options.cache / options.name.cache_folder()).string());
}

/// Shows a download on stderr: on a terminal a line that is drawn again, elsewhere a line per file
/// and one every ten seconds.
class DownloadProgress {
 public:
  [[nodiscard]] hub::PullObserver observer() {
    return {.on_plan = [this](const hub::PullPlan& plan) { begin(plan); },
            .on_bytes = [this](uint64_t bytes) { show(bytes); },
            .on_file = [this](const hub::RepositoryFile& file) { end_of(file); },
            .on_message = [this](std::string_view message) { print_line(message); }};
  }

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const hub::PullPlan& plan) {
    bytes_there_ = plan.bytes_there;
    bytes_to_come_ = plan.total_bytes - plan.bytes_there;
    print_line(fmt::format(
        "{} files, {}{}",
        plan.files.size(),
        format_bytes(plan.total_bytes),
        bytes_there_ == 0 ? "" : fmt::format("; {} are here already", format_bytes(bytes_there_))));
    began_ = told_ = Clock::now();
    line_.emplace("Downloading", ProgressUnit::bytes);
  }

  void show(uint64_t bytes) {
    const uint64_t arrived = bytes - std::min(bytes, bytes_there_);
    line_->update(arrived, bytes_to_come_);
    const auto now = Clock::now();
    if (is_terminal_ || now - told_ < std::chrono::seconds(10)) return;
    told_ = now;
    print_line(progress_text(arrived, bytes_to_come_, now - began_, ProgressUnit::bytes));
  }

  void end_of(const hub::RepositoryFile& file) {
    print_line(fmt::format("{:>10}  {}", format_bytes(file.size), file.path));
  }

  void print_line(std::string_view text) {
    if (line_) line_->clear();
    print_error("{}\n", text);
  }

  bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  uint64_t bytes_there_ = 0;
  uint64_t bytes_to_come_ = 0;
  Clock::time_point began_;
  Clock::time_point told_;
  std::optional<ProgressLine> line_;
};

/// A pull may end at any moment, and the next pull continues it. So Ctrl-C needs no cleaning up,
/// only a message.
void end_on_interrupt() {
  std::signal(SIGINT, [](int signal) {
    constexpr std::string_view kText =
        "\nreprise: interrupted; what has arrived is kept, the same command goes on from there\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
    std::signal(signal, SIG_DFL);
    raise(signal);
  });
}

hub::HubName read_name(std::span<const std::string> positional) {
  if (positional.size() != 1) {
    throw InvalidArgument(positional.empty()
                              ? "pull needs a model: reprise pull ORG/NAME, as in Qwen/Qwen3-0.6B"
                              : fmt::format("pull: unexpected argument '{}'", positional[1]));
  }
  std::optional<hub::HubName> name = hub::parse_hub_name(positional[0]);
  if (!name) {
    throw InvalidArgument(fmt::format(
        "pull: '{}' is no name on the hub; expected ORG/NAME, as in Qwen/Qwen3-0.6B, or "
        "ORG/NAME:FILE, as in unsloth/Qwen3-0.6B-GGUF:Q4_K_M",
        positional[0]));
  }
  return *name;
}

void complete_options(hub::PullOptions& options) {
  if (options.cache.empty()) options.cache = api::hub_cache_folder();
  if (options.cache.empty()) {
    throw InvalidArgument(
        "there is no place for models: set HF_HUB_CACHE or HOME, or --download-dir");
  }
  const std::string endpoint =
      look_up_process_environment("HF_ENDPOINT").value_or("https://huggingface.co");
  options.endpoint = http_client::parse_url("HF_ENDPOINT", endpoint);
  options.token = find_token();
  options.proxies = find_proxies();
  if (is_offline()) {
    throw InvalidArgument(fmt::format("HF_HUB_OFFLINE is set, so no server is asked. {}",
                                      advice_without_network(options)));
  }
}

void print_plan(const hub::PullPlan& plan) {
  for (const hub::RepositoryFile& file : plan.files) {
    fmt::print("{:>10}  {}\n", format_bytes(file.size), file.path);
  }
  fmt::print("{:>10}  in all, of which {} are here already\n",
             format_bytes(plan.total_bytes),
             format_bytes(plan.bytes_there));
}

}  // namespace

int run_pull(std::span<const std::string> raw_arguments) {
  PullArguments arguments;
  const std::optional<Configuration> configuration =
      configure(pull_table(arguments), raw_arguments);
  if (!configuration) return 0;
  hub::PullOptions& options = arguments.options;
  options.name = read_name(configuration->positional());
  complete_options(options);
  try {
    if (arguments.dry_run) {
      print_plan(hub::plan_pull(options));
      return 0;
    }
    end_on_interrupt();
    DownloadProgress progress;
    const hub::PullPlan plan = hub::pull(options, progress.observer());
    fmt::print("{}\n", plan.snapshot.string());
    print_error("Ready: reprise serve {}{}\n",
                full_name(options.name),
                options.revision == "main" ? "" : " --revision " + options.revision);
    return 0;
  } catch (const hub::HubUnreachable& error) {
    throw Error(fmt::format(
        "the hub does not answer: {}. {}", error.what(), advice_without_network(options)));
  }
}

}  // namespace reprise::cli
