#include "reprise/cli/startup_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reprise/api/options/product_report.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/cli/memory_bill_text.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/terminal.h"
#include "reprise/config/explain.h"
#include "reprise/server/metrics/metrics.h"

namespace reprise::cli {
namespace {

// 16384 -> "16,384"
std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

void log_attention(const Log& log, const api::StartupReport& report) {
  const attention::BackendInfo& backend = *report.attention;
  const std::string version =
      backend.version == 0 ? "" : fmt::format("version {}, ", backend.version);
  log.info(fmt::format("Using {} backend. Attention: {}{}; in FULL graphs: {}",
                       backend.name,
                       version,
                       backend.role,
                       to_string(backend.support)));
  if (!report.attention_kernels.empty()) {
    log.info(fmt::format("Attention kernels: {}", report.attention_kernels));
  }
  if (report.num_state_slots > 0) {
    const int64_t num_snapshots = report.num_state_snapshots;
    const int64_t states_per_req = report.resolved.uniform_decode_query_len;
    log.info(fmt::format(
        "Recurrent layers: states of up to {} requests{} and {} cached prefixes, {:.3f} GiB{}",
        (report.num_state_slots - 1 - num_snapshots) / states_per_req,
        states_per_req > 1 ? fmt::format(" ({} of each, for drafts)", states_per_req) : "",
        num_snapshots,
        gib(report.state_cache_bytes),
        num_snapshots > 0 ? "" : "; prefix caching is off"));
  }
  if (report.resolved.attention.size() < 2) return;
  for (const cudagraph::AttentionBackendSupport& group : report.resolved.attention) {
    log.info(fmt::format("Attention of {}", config::attention_group_text(group)));
  }
  log.info(fmt::format("Attention: {}", config::weakest_text(report.resolved)));
}

void log_compilation(const Log& log, const api::StartupReport& report) {
  if (report.resolved.compilation_mode == config::CompilationMode::NONE) {
    log.info("Compilation is off: the model's own code runs");
  } else if (report.compilation.refused == compile::kOptedOut) {
    log.info(fmt::format("Nothing is compiled: {}", report.compilation.refused));
  } else if (!report.compilation.guarded.empty()) {
    log.info(fmt::format("Each number of tokens is traced when it first comes: {}",
                         report.compilation.guarded));
  } else if (!report.compilation.refused.empty()) {
    log.warning(fmt::format("Nothing was compiled: {}", report.compilation.refused));
  } else if (report.compilation.cache_outcome == "hit") {
    log.info(fmt::format(
        "Directly load the compiled graph(s) for dynamic shape from the cache, took {:.3f} s",
        report.compile_seconds));
  } else {
    log.info(
        fmt::format("Compiling a graph for dynamic shape takes {:.3f} s", report.compile_seconds));
  }
}

void log_products(const Log& log, const api::StartupReport& report) {
  if (report.products == nullptr) return;
  const api::ProductReport& products = *report.products;
  if (!products.measured.is_empty()) {
    log.info(fmt::format("Measured the kernels of {} products in {:.1f} s",
                         products.measured.num_measured(),
                         products.seconds));
  }
  if (products.table.is_empty()) return;
  log.info(
      fmt::format("Matrix products: choices for {} products were measured on this device, {} of "
                  "them differ from the built-in rules: {}",
                  products.table.num_measured(),
                  products.table.num_changed(),
                  products.file));
}

void log_memory(const Log& log, const api::StartupReport& report) {
  for (const std::string& line : memory_bill_lines(api::memory_bill(report))) log.info(line);
  log.info(fmt::format("  the device says {}", format_bytes(report.memory.reported)));
  log.debug(fmt::format("memory bill {}", to_json(report).dump()));
}

void log_kv_cache(const Log& log, const api::StartupReport& report) {
  const int64_t usable = report.num_kv_blocks - 1;  // one block is the null block
  const int64_t per_request =
      (report.max_model_len + report.kv_block_size - 1) / report.kv_block_size;
  const double concurrency = static_cast<double>(usable) / static_cast<double>(per_request);
  log.info(fmt::format("Available KV cache memory: {:.2f} GiB", gib(report.kv_cache_bytes)));
  log.info(fmt::format("GPU KV cache size: {} tokens", with_commas(usable * report.kv_block_size)));
  log.info(fmt::format("Maximum concurrency for {} tokens per request: {:.2f}x",
                       with_commas(report.max_model_len),
                       concurrency));
}

// Logs one line per kind of batch, similar to vLLM's finished progress bars.
void log_captures(const Log& log, const api::StartupReport& report) {
  using cudagraph::CaptureRecord;
  for (const auto& [mode, uniform, title] :
       {std::tuple{
            cudagraph::CudagraphRuntimeMode::PIECEWISE, false, "mixed prefill-decode, PIECEWISE"},
        std::tuple{cudagraph::CudagraphRuntimeMode::FULL, false, "mixed prefill-decode, FULL"},
        std::tuple{cudagraph::CudagraphRuntimeMode::FULL, true, "decode, FULL"}}) {
    size_t captured = 0;
    size_t planned = 0;
    for (const CaptureRecord& record : report.capture.records) {
      if (record.mode != mode || record.descriptor.uniform != uniform) continue;
      ++planned;
      if (record.failure.empty()) ++captured;
    }
    if (planned == 0) continue;
    log.info(fmt::format("Capturing CUDA graphs ({}): {}%|{}| {}/{}",
                         title,
                         100 * captured / planned,
                         tenths_bar(captured, planned),
                         captured,
                         planned));
  }
  for (const CaptureRecord& record : report.capture.records) {
    if (record.failure.empty()) continue;
    log.warning(fmt::format("{} [{}] has no graph, steps of its shape use another: {}",
                            to_string(record.mode),
                            to_string(record.descriptor),
                            record.failure));
  }
  if (report.capture.ladder) {
    log.info(fmt::format("Capture sizes measured: {}", report.capture.ladder->describe()));
    for (const cudagraph::MeasuredKey& key : report.capture.ladder->keys) {
      if (key.is_kept()) continue;
      log.debug(fmt::format("dropped {} [{}]: {}",
                            to_string(key.key.mode),
                            to_string(key.key.descriptor),
                            key.dropped_because));
    }
  }
  if (const std::string verdicts = report.capture.describe_verdicts(); !verdicts.empty()) {
    log.info(fmt::format(
        "Graph verification: {} in {:.3f} secs", verdicts, report.capture.verify_seconds()));
  }
  if (!report.capture.violation.empty()) log.warning(report.capture.violation);
  log.info(fmt::format("Graph capturing finished in {:.3f} secs, took {:.4f} GiB",
                       report.capture.seconds,
                       gib(report.graph_bytes)));
}

void log_speculation(const Log& log, const api::StartupReport& report) {
  const int32_t query_len = report.resolved.uniform_decode_query_len;
  if (query_len == 1) return;
  log.info(fmt::format("Speculative decoding: up to {} draft tokens per request and step",
                       query_len - 1));
  if (report.draft_model == nullptr) return;
  const api::StartupReport& draft = *report.draft_model;
  const auto num_captured = std::ranges::count_if(
      draft.capture.records, [](const auto& record) { return record.failure.empty(); });
  log.info(fmt::format(
      "Draft model: {:.1f} M parameters, weights {}, KV cache {}, {} graphs (cudagraph_mode {}), "
      "requests of up to {} tokens",
      static_cast<double>(draft.num_parameters) / 1e6,
      format_bytes(draft.weight_bytes),
      format_bytes(draft.kv_cache_bytes),
      num_captured,
      to_string(draft.resolved.mode),
      with_commas(draft.max_model_len)));
}

void log_budget(const Log& log, const api::StartupReport& report) {
  std::string text = "Start-up time:";
  for (const StartupShare& share : startup_budget(report)) {
    text += fmt::format(" {} {:.3f} s ({}.{} %),",
                        share.name,
                        share.seconds,
                        share.tenths_of_percent / 10,
                        share.tenths_of_percent % 10);
  }
  log.info(fmt::format("{} total {:.3f} s (100.0 %)", text, report.total_seconds));
}

}  // namespace

std::vector<StartupShare> startup_budget(const api::StartupReport& report) {
  std::vector<StartupShare> shares;
  double accounted = 0;
  for (const api::StartupStage& stage : report.stages) {
    shares.push_back({.name = stage.name, .seconds = stage.seconds});
    accounted += stage.seconds;
  }
  std::stable_sort(shares.begin(), shares.end(), [](const StartupShare& a, const StartupShare& b) {
    return a.seconds > b.seconds;
  });
  shares.push_back({.name = "other", .seconds = std::max(0.0, report.total_seconds - accounted)});
  // Each share is the difference of two rounded sums, so that the shares sum to exactly 1000.
  const double total = std::max(accounted + shares.back().seconds, 1e-9);
  double sum = 0;
  int given = 0;
  for (StartupShare& share : shares) {
    sum += share.seconds;
    const int until_here =
        &share == &shares.back() ? 1000 : static_cast<int>(std::lround(1000 * sum / total));
    share.tenths_of_percent = until_here - given;
    given = until_here;
  }
  return shares;
}

void log_startup(const Log& log, const api::StartupReport& report, std::string_view model) {
  for (const std::string& warning : report.warnings) log.warning(warning);
  if (!report.device_reason.empty()) log.info(report.device_reason);
  log.info(fmt::format("{}: {:.1f} M parameters ({}) on {}; kernels: {}",
                       model,
                       static_cast<double>(report.num_parameters) / 1e6,
                       report.dtype,
                       report.device,
                       report.cpu_isa));
  log.info(fmt::format("Loading weights took {:.3f} seconds", report.weights_seconds));
  if (!report.packed_weights.empty()) {
    log.info(fmt::format("Packed weights: {}", report.packed_weights));
  }
  log.info(fmt::format("Model loading took {:.4f} GiB and {:.3f} seconds",
                       gib(report.weight_bytes),
                       report.weights_seconds + report.tokenizer_seconds));
  log_attention(log, report);
  log_speculation(log, report);
  log_compilation(log, report);
  log_products(log, report);
  log_kv_cache(log, report);
  log_captures(log, report);
  log_memory(log, report);
  log.info(
      fmt::format("init engine (profile, create kv cache, warmup model) took {:.3f} seconds "
                  "(compilation: {:.3f} s)",
                  report.total_seconds - report.weights_seconds - report.tokenizer_seconds,
                  report.compile_seconds));
  log.info(fmt::format("cudagraph_mode {}, level {}",
                       to_string(report.resolved.mode),
                       to_string(report.resolved.compilation_mode)));
  log.info(fmt::format(
      "Memory: weights {}, KV cache {} (filled as it is used), graphs {}; {} resident now",
      format_bytes(report.weight_bytes),
      format_bytes(report.kv_cache_bytes),
      format_bytes(report.graph_bytes),
      format_bytes(static_cast<size_t>(server::read_process_facts().resident_memory_bytes))));
  log_budget(log, report);
}

}  // namespace reprise::cli
