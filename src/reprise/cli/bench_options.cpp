#include "reprise/cli/bench_options.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "reprise/api/options/model_files.h"
#include "reprise/base/error.h"
#include "reprise/cli/log_environment.h"

namespace reprise::cli {
namespace {

constexpr const char* kDataset = "Dataset";

void add_common(OptionTable& table, bench::DatasetOptions& options) {
  table.add_text("dataset-name",
                 kDataset,
                 "NAME",
                 fmt::format("What to send: {}.", bench::dataset_names()),
                 options.name);
  table.add({.name = "dataset-path",
             .group = kDataset,
             .value_name = "FILE",
             .help = "File of sharegpt (JSON), sonnet (text), custom or timed_trace (JSON lines).",
             .apply = [&options](std::string_view value) { options.path = value; }});
  table.add_integer("num-prompts", kDataset, "Requests to send.", options.num_prompts);
  table.add({.name = "input-len",
             .group = kDataset,
             .value_name = "N",
             .help = "Prompt length in tokens, for every dataset.",
             .apply = [&options](std::string_view value) {
               const auto length = static_cast<int32_t>(parse_human_integer("--input-len", value));
               options.random_input_len = options.sonnet_input_len = length;
               options.prefix_repetition_suffix_len = length;
             }});
  table.add({.name = "output-len",
             .group = kDataset,
             .value_name = "N",
             .help = "Answer length in tokens, for every dataset.",
             .apply = [&options](std::string_view value) {
               const auto length = static_cast<int32_t>(parse_human_integer("--output-len", value));
               options.random_output_len = options.sonnet_output_len = length;
               options.custom_output_len = options.prefix_repetition_output_len = length;
               options.sharegpt_output_len = length;
             }});
  table.add({.name = "trust-remote-code",
             .group = kDataset,
             .help = "No effect: no code of a model folder is ever run.",
             .default_text = "off",
             .apply = [](std::string_view) {
               print_log(LogLevel::warning,
                         "--trust-remote-code has no effect here: no code of a model folder is "
                         "ever run\n");
             }});
  table.add_switch("no-oversample",
                   kDataset,
                   "Send fewer requests than --num-prompts when the file has fewer.",
                   options.no_oversample);
  table.add_switch("disable-shuffle",
                   kDataset,
                   "Take a file's first entries instead of a sample.",
                   options.disable_shuffle);
}

void add_trace_options(OptionTable& table, bench::DatasetOptions& options) {
  table.add_integer("timed-trace-chunk-hash-size",
                    kDataset,
                    "timed_trace: tokens of a chunk with one id; 512 in Mooncake's traces.",
                    options.timed_trace_chunk_hash_size);
  add_number(table,
             "timed-trace-sec-multiplier",
             kDataset,
             "timed_trace: seconds of one unit of time; 0.001 for milliseconds.",
             options.timed_trace_sec_multiplier);
  const auto add_label = [&](const char* name, const char* what, std::string& target) {
    table.add_text(fmt::format("timed-trace-label-{}", name),
                   kDataset,
                   "NAME",
                   fmt::format("timed_trace: the member with {}.", what),
                   target);
  };
  add_label("timestamp", "the time", options.timed_trace_label_timestamp);
  add_label("input-length", "the tokens of the prompt", options.timed_trace_label_input_length);
  add_label("output-length", "the tokens of the answer", options.timed_trace_label_output_length);
  add_label("hash-ids", "the ids of the prompt's chunks", options.timed_trace_label_hash_ids);
}

}  // namespace

void add_dataset_options(OptionTable& table, bench::DatasetOptions& options) {
  add_common(table, options);
  table.add_integer(
      "random-input-len", kDataset, "random: tokens per prompt.", options.random_input_len);
  table.add_integer(
      "random-output-len", kDataset, "random: tokens per answer.", options.random_output_len);
  add_number(table,
             "random-range-ratio",
             kDataset,
             "random: both lengths vary uniformly by up to this share.",
             options.random_range_ratio);
  table.add_integer("random-prefix-len",
                    kDataset,
                    "random: tokens that all prompts begin with, on top of their length.",
                    options.random_prefix_len);
  add_optional_integer(table,
                       "sharegpt-output-len",
                       kDataset,
                       "sharegpt: tokens per answer; default: as in the file.",
                       options.sharegpt_output_len,
                       1);
  table.add_integer(
      "sonnet-input-len", kDataset, "sonnet: tokens per prompt.", options.sonnet_input_len);
  table.add_integer(
      "sonnet-output-len", kDataset, "sonnet: tokens per answer.", options.sonnet_output_len);
  table.add_integer("sonnet-prefix-len",
                    kDataset,
                    "sonnet: tokens that all prompts begin with.",
                    options.sonnet_prefix_len);
  table.add_integer("custom-output-len",
                    kDataset,
                    "custom: tokens per answer; -1: \"output_tokens\" of each line.",
                    options.custom_output_len);
  table.add_switch("skip-chat-template",
                   kDataset,
                   "custom: send prompts without the chat template.",
                   options.skip_chat_template);
  table.add_integer("prefix-repetition-prefix-len",
                    kDataset,
                    "prefix_repetition: tokens per prefix.",
                    options.prefix_repetition_prefix_len);
  table.add_integer("prefix-repetition-suffix-len",
                    kDataset,
                    "prefix_repetition: tokens after the prefix.",
                    options.prefix_repetition_suffix_len);
  table.add_integer("prefix-repetition-num-prefixes",
                    kDataset,
                    "prefix_repetition: number of different prefixes.",
                    options.prefix_repetition_num_prefixes);
  table.add_integer("prefix-repetition-output-len",
                    kDataset,
                    "prefix_repetition: tokens per answer.",
                    options.prefix_repetition_output_len);
  add_trace_options(table, options);
}

std::vector<std::string> expand_lists(std::span<const std::string> arguments,
                                      std::span<const std::string_view> names) {
  std::vector<std::string> expanded;
  std::string open;  // the list option that the following values belong to
  size_t num_values = 0;
  for (const std::string& argument : arguments) {
    if (argument.starts_with('-') || open.empty()) {
      const bool is_list = std::find(names.begin(), names.end(), argument) != names.end();
      open = is_list ? argument : "";
      num_values = 0;
    } else if (num_values++ > 0) {
      expanded.push_back(open);
    }
    expanded.push_back(argument);
  }
  return expanded;
}

void add_optional_integer(OptionTable& table,
                          std::string name,
                          std::string group,
                          std::string help,
                          std::optional<int32_t>& target,
                          int32_t lowest) {
  std::string flag = "--" + name;
  table.add({.name = std::move(name),
             .group = std::move(group),
             .value_name = "N",
             .help = std::move(help),
             .apply = [&target, flag, lowest](std::string_view value) {
               const int64_t number = parse_human_integer(flag, value);
               if (number < lowest || number > std::numeric_limits<int32_t>::max()) {
                 throw InvalidArgument(
                     fmt::format("{}: {} is not {} or more", flag, value, lowest));
               }
               target = static_cast<int32_t>(number);
             }});
}

void add_number(
    OptionTable& table, std::string name, std::string group, std::string help, double& target) {
  std::string flag = "--" + name;
  table.add(
      {.name = std::move(name),
       .group = std::move(group),
       .value_name = "X",
       .help = std::move(help),
       .default_text = fmt::format("{}", target),
       .apply = [&target, flag](std::string_view value) { target = parse_rate(flag, value); }});
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::pair<std::string, std::string> split_pair(std::string_view option, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InvalidArgument(fmt::format("{}: '{}' is not KEY=VALUE", option, text));
  }
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

double parse_rate(std::string_view option, std::string_view text) {
  if (text == "inf" || text == "infinity") return std::numeric_limits<double>::infinity();
  return parse_number(option, text);
}

PromptMaker::PromptMaker(const std::filesystem::path& folder)
    : folder_(folder), tokenizer_(api::ModelFiles(folder).tokenizer()) {
  const std::string_view source = tokenizer_.config().chat_template();
  if (!source.empty()) chat_template_ = chat_template::ChatTemplate::parse(source);
}

std::string PromptMaker::apply_chat_template(const std::string& content) const {
  if (!chat_template_) {
    throw InvalidArgument(
        fmt::format("{} brings no chat template, which this dataset needs; --skip-chat-template "
                    "sends the prompts of --dataset-name custom as they stand",
                    folder_.string()));
  }
  chat_template::RenderOptions options;
  options.add_generation_prompt = true;
  options.bos_token = tokenizer_.config().bos_token.value_or("");
  options.eos_token = tokenizer_.config().eos_token.value_or("");
  const Json message = {{"role", "user"}, {"content", content}};
  return chat_template_->render(Json::array({message}), options);
}

bench::DatasetTools PromptMaker::tools(bool sends_messages) const {
  return {.tokenizer = &tokenizer_,
          .apply_chat_template =
              [this](const std::string& content) { return apply_chat_template(content); },
          .sends_messages = sends_messages};
}

void raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // if the system refuses, the old limit stays
}

}  // namespace reprise::cli
