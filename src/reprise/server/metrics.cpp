#include "reprise/server/metrics.h"

#include <fmt/format.h>

#include <initializer_list>

namespace reprise::server {
namespace {

std::string escape_label(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

struct Sample {
  std::string labels;  // beyond those of every sample: `,mode="FULL"`
  double value = 0;
};

class Page {
 public:
  explicit Page(std::string_view model_name)
      : labels_(fmt::format("engine=\"0\",model_name=\"{}\"", escape_label(model_name))) {}

  void add(std::string_view type,
           std::string_view name,
           std::string_view help,
           std::initializer_list<Sample> samples) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    for (const Sample& sample : samples) {
      text_ += fmt::format("{}{{{}{}}} {}\n", name, labels_, sample.labels, sample.value);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string labels_;
  std::string text_;
};

Sample labelled(std::string_view name, std::string_view value, uint64_t count) {
  return {fmt::format(",{}=\"{}\"", name, value), static_cast<double>(count)};
}
Sample plain(double value) { return {{}, value}; }
Sample plain(uint64_t count) { return {{}, static_cast<double>(count)}; }

}  // namespace

std::string metrics_text(const api::EngineStats& stats, std::string_view model_name) {
  Page page(model_name);
  page.add("gauge",
           "vllm:num_requests_running",
           "Requests in execution batches.",
           {plain(static_cast<double>(stats.num_requests_running))});
  page.add("gauge",
           "vllm:num_requests_waiting",
           "Requests that wait to be processed.",
           {plain(static_cast<double>(stats.num_requests_waiting))});
  page.add("gauge",
           "vllm:kv_cache_usage_perc",
           "Part of the KV cache in use; 1 means all of it.",
           {plain(stats.kv_cache_usage)});
  page.add("gauge",
           "vllm:gpu_cache_usage_perc",
           "vllm:kv_cache_usage_perc by its old name.",
           {plain(stats.kv_cache_usage)});
  page.add("counter",
           "vllm:prompt_tokens_total",
           "Prompt tokens processed.",
           {plain(stats.prompt_tokens)});
  page.add("counter",
           "vllm:generation_tokens_total",
           "Tokens generated.",
           {plain(stats.generation_tokens)});
  page.add("counter",
           "vllm:num_preemptions_total",
           "Times a request was preempted.",
           {plain(stats.num_preemptions)});
  page.add("counter",
           "vllm:request_success_total",
           "Finished requests by the reason they ended.",
           {labelled("finished_reason", "stop", stats.num_finished_stop),
            labelled("finished_reason", "length", stats.num_finished_length),
            labelled("finished_reason", "abort", stats.num_finished_abort),
            labelled("finished_reason", "error", stats.num_finished_error)});
  page.add("counter", "reprise:steps_total", "Steps of the engine.", {plain(stats.num_steps)});
  page.add("counter",
           "reprise:cudagraph_dispatch_total",
           "Steps by the mode they ran in; NONE is eager.",
           {labelled("runtime_mode", "FULL", stats.steps_full),
            labelled("runtime_mode", "PIECEWISE", stats.steps_piecewise),
            labelled("runtime_mode", "NONE", stats.steps_eager)});
  return page.take();
}

}  // namespace reprise::server
