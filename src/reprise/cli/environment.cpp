#include "reprise/cli/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/nearest_name.h"

namespace reprise::cli {
namespace {

using Converted = std::optional<std::string>;

// vLLM's variable counts GiB; 0 means that the program chooses.
Converted gib_to_bytes(std::string_view value, const LookUpVariable&) {
  if (value == "0") return std::nullopt;
  (void)parse_human_integer("VLLM_CPU_KVCACHE_SPACE", value);
  return std::string(value) + "G";
}

// REPRISE_CACHE_ROOT is this program's own variable and has priority.
Converted cache_below_root(std::string_view value, const LookUpVariable& look_up) {
  if (value.empty() || look_up("REPRISE_CACHE_ROOT")) return std::nullopt;
  return std::string(value) + "/reprise_compile_cache";
}

// vLLM's variables for switches hold numbers.
Converted number_to_switch(std::string_view value, const LookUpVariable&) {
  if (value == "1") return "true";
  if (value == "0" || value.empty()) return "false";
  return std::string(value);
}

Converted switch_unless_empty(std::string_view value, const LookUpVariable& look_up) {
  if (value.empty()) return std::nullopt;
  return number_to_switch(value, look_up);
}

Converted one_to_switch(std::string_view value, const LookUpVariable&) {
  if (value.empty() || value == "0") return std::nullopt;
  return value == "1" ? "true" : std::string(value);
}

Converted unless_empty(std::string_view value, const LookUpVariable&) {
  if (value.empty()) return std::nullopt;
  return std::string(value);
}

Converted folder_to_profiler_config(std::string_view value, const LookUpVariable&) {
  if (value.empty()) return std::nullopt;
  return Json{{"torch_profiler_dir", std::string(value)}}.dump();
}

constexpr std::array kVariables = {
    Variable{"NOTIFY_SOCKET",
             "serve: the socket of the service manager (systemd, Type=notify), which is told when "
             "the server is ready.",
             ""},
    Variable{"REPRISE_API_KEY", "serve: one more --api-key.", "api-key"},
    Variable{"VLLM_API_KEY", "The same under vLLM's name.", "api-key"},
    Variable{"VLLM_SERVER_DEV_MODE", "serve: 1 is --dev.", "dev", number_to_switch},
    Variable{
        "VLLM_LOGGING_LEVEL",
        "Least level of the log: DEBUG, INFO, WARNING or ERROR. DEBUG is --verbose and, with "
        "serve, also logs the text of requests that --enable-log-requests logs. WARNING leaves "
        "out the summary of a start, ERROR also its warnings.",
        ""},
    Variable{
        "VLLM_LOGGING_CONFIG_PATH", "serve: --log-config-file by vLLM's name.", "log-config-file"},
    Variable{"VLLM_LOGGING_PREFIX", "serve: the prefix of every line of the log.", ""},
    Variable{"VLLM_LOGGING_COLOR",
             "serve: 1 colours the log, 0 does not; without it, the log has colours on a terminal.",
             ""},
    Variable{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
             "serve: --otlp-traces-endpoint by OpenTelemetry's name.",
             "otlp-traces-endpoint"},
    Variable{"OTEL_EXPORTER_OTLP_TRACES_HEADERS",
             "serve: headers for the collector, as key=value,key=value; values may be "
             "percent-encoded.",
             ""},
    Variable{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
             "serve: http/json, or http/protobuf, whose receivers take JSON too; grpc is refused.",
             ""},
    Variable{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
             "serve: milliseconds that the collector has for each batch of spans. [10000]",
             ""},
    Variable{"OTEL_SERVICE_NAME", "serve: service.name of the traces. [reprise]", ""},
    Variable{"NO_COLOR", "Not empty: no colours.", ""},
    Variable{"VLLM_LOG_STATS_INTERVAL", "serve: seconds between lines about throughput. [10]", ""},
    Variable{"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
             "serve: 1 lets a server whose device is lost go on and answer 503; without it, the "
             "server ends with status 1.",
             ""},
    Variable{"VLLM_ALLOW_RUNTIME_LORA_UPDATING",
             "serve: 1 or true adds /v1/load_lora_adapter and /v1/unload_lora_adapter, which read "
             "folders of the server by request.",
             ""},
    Variable{"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES",
             "serve: 0 gives events of --kv-events-config the whole hashes of blocks as bytes; 1, "
             "the default, their last 64 bits as integers.",
             ""},
    Variable{"REPRISE_KV_TRANSFER_SECRET",
             "serve: the secret that the servers of --kv-transfer-config share; its secret_file "
             "comes first.",
             ""},
    Variable{"VLLM_TORCH_PROFILER_DIR",
             "serve: folder for traces, as --profiler-config.torch_profiler_dir.",
             "profiler-config",
             folder_to_profiler_config},
    Variable{"OPENAI_API_KEY", "Key that bench serve, chat and complete send.", ""},
    Variable{"HF_HUB_CACHE",
             "Folder in which models are found by name, and to which they are downloaded; else "
             "$HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub.",
             ""},
    Variable{"HF_HOME", "Folder with the cache `hub` and the file `token`.", ""},
    Variable{"HF_ENDPOINT", "pull: the hub or a mirror of it. [https://huggingface.co]", ""},
    Variable{"HF_TOKEN",
             "pull: the token for private and gated models; else the file that HF_TOKEN_PATH "
             "names, else $HF_HOME/token, as `hf auth login` writes it.",
             ""},
    Variable{"HF_TOKEN_PATH", "pull: the file with the token.", ""},
    Variable{"HF_HUB_OFFLINE", "pull: 1 or true: asks no server.", ""},
    Variable{"HTTPS_PROXY", "pull: the HTTP proxy for https servers, http://HOST:PORT.", ""},
    Variable{"https_proxy", "The same.", ""},
    Variable{"NO_PROXY", "pull: hosts and domains that are asked without the proxy.", ""},
    Variable{"no_proxy", "The same.", ""},
    Variable{"REPRISE_CACHE_ROOT",
             "Folder for compiled programs, and in it packed_weights and tuned_products; "
             "--compile-cache-root and --packed-weights-cache come first.",
             ""},
    Variable{"VLLM_CACHE_ROOT",
             "If REPRISE_CACHE_ROOT is not given: compiled programs go to its folder "
             "reprise_compile_cache.",
             "compile-cache-root",
             cache_below_root},
    Variable{"XDG_CACHE_HOME", "If neither is given: $XDG_CACHE_HOME/reprise/compile_cache.", ""},
    Variable{"HOME",
             "If that is not an absolute path: $HOME/.cache/reprise/compile_cache; else nowhere.",
             ""},
    Variable{"REPRISE_DISABLE_COMPILE_CACHE", "1 or true: as --disable-compile-cache.", ""},
    Variable{"VLLM_DISABLE_COMPILE_CACHE", "The same under vLLM's name.", ""},
    Variable{"VLLM_CPU_KVCACHE_SPACE",
             "GiB of memory for keys and values, as --kv-cache-memory-bytes; 0 = choose.",
             "kv-cache-memory-bytes",
             gib_to_bytes},
    Variable{"VLLM_CPU_OMP_THREADS_BIND",
             "CPUs of worker threads, as --cpu-threads-bind.",
             "cpu-threads-bind",
             unless_empty},
    Variable{
        "VLLM_ATTENTION_BACKEND", "As --attention-backend.", "attention-backend", unless_empty},
    Variable{
        "VLLM_FLASH_ATTN_VERSION", "As --flash-attn-version.", "flash-attn-version", unless_empty},
    Variable{"VLLM_ALLOW_LONG_MAX_MODEL_LEN",
             "1 is --allow-long-max-model-len.",
             "allow-long-max-model-len",
             number_to_switch},
    Variable{"VLLM_BATCH_INVARIANT",
             "0 is --no-batch-invariant, 1 is --batch-invariant, the default on CPUs, except for "
             "packed weights on AMX.",
             "batch-invariant",
             switch_unless_empty},
    Variable{"VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE",
             "1 is --tune; with 0 nothing is measured, as without it.",
             "tune",
             one_to_switch},
};

constexpr std::string_view kPrefix = "REPRISE_ARG_";

// These options name the source of other options.
bool is_about_configuration(std::string_view option) {
  return option == "config" || option == "dump-config";
}

// Counts the edits after the prefix, because all names share the prefix.
std::string_view nearest_option_variable(std::string_view name,
                                         std::span<const std::string_view> variables) {
  std::vector<std::string_view> options;
  for (const std::string_view variable : variables) {
    options.push_back(variable.substr(kPrefix.size()));
  }
  const std::string_view nearest = nearest_name(name.substr(kPrefix.size()), options);
  const auto found = std::ranges::find(options, nearest);
  return nearest.empty() ? nearest : variables[static_cast<size_t>(found - options.begin())];
}

}  // namespace

std::optional<std::string> look_up_process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::span<const Variable> environment_variables() { return kVariables; }

std::string variable_of(std::string_view option_name) {
  std::string name(kPrefix);
  for (char c : option_name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::vector<Assignment> read_environment(const OptionTable& table, const LookUpVariable& look_up) {
  std::vector<Assignment> found;
  const auto add = [&found](const Option* option, std::string_view variable, std::string value) {
    found.push_back({.option = option,
                     .value = std::move(value),
                     .source = Source::environment,
                     .where = std::string(variable)});
  };
  for (const Variable& variable : kVariables) {
    const Option* option = variable.option.empty() ? nullptr : table.find(variable.option);
    if (option == nullptr) continue;
    Converted value = look_up(variable.name);
    if (value && variable.convert != nullptr) value = variable.convert(*value, look_up);
    if (value) add(option, variable.name, *value);
  }
  for (const Option& option : table.options()) {
    if (is_about_configuration(option.name)) continue;
    const std::string variable = variable_of(option.name);
    std::optional<std::string> value = look_up(variable);
    if (!value) continue;
    // For a switch, the environment may hold 1 or 0.
    if (option.value_name.empty() && (*value == "1" || *value == "0"))
      value = *value == "1" ? "true" : "false";
    add(&option, variable, *value);
  }
  return found;
}

std::vector<std::string> unknown_variables(std::span<const std::string> set_names) {
  std::vector<std::string> unknown;
  for (const std::string& name : set_names) {
    if (!name.starts_with("VLLM_") && !name.starts_with("REPRISE_")) continue;
    if (name.starts_with(kPrefix)) continue;
    if (std::ranges::find(kVariables, name, &Variable::name) == kVariables.end()) {
      unknown.push_back(name);
    }
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

std::vector<std::string> unknown_option_variables(const OptionTable& table,
                                                  const OptionTable& serve,
                                                  std::span<const std::string> set_names) {
  std::vector<std::string> known;
  for (const OptionTable* options : {&table, &serve}) {
    for (const Option& option : options->options()) {
      if (!is_about_configuration(option.name)) known.push_back(variable_of(option.name));
    }
  }
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  std::vector<std::string> messages;
  for (const std::string& name : set_names) {
    if (!name.starts_with(kPrefix) || std::ranges::find(known, name) != known.end()) continue;
    const std::string_view nearest = nearest_option_variable(name, candidates);
    messages.push_back(
        fmt::format("{} is set and means nothing here{}",
                    name,
                    nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

std::vector<std::string> process_environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace reprise::cli
