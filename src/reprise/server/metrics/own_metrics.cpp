#include <algorithm>
#include <array>

#include "reprise/server/metrics/metric_table.h"

namespace reprise::server {
namespace {

/// The number now; for an engine in another process, the number at its start.
double num_captured(From from, cudagraph::CudagraphRuntimeMode mode) {
  if (from.engine.graphs) {
    return static_cast<double>(from.engine.graphs->num_captured.at(static_cast<size_t>(mode)));
  }
  const auto& records = from.startup.capture.records;
  return static_cast<double>(std::count_if(records.begin(), records.end(), [mode](const auto& it) {
    return it.mode == mode && it.failure.empty();
  }));
}

void write_decisions(Out out,
                     const std::vector<cudagraph::DispatchLedger::DecisionCount>& decisions) {
  for (const auto& decision : decisions) {
    const bool is_eager = decision.mode == cudagraph::CudagraphRuntimeMode::NONE;
    out.count(decision.count,
              {{"runtime_mode", to_string(decision.mode)},
               {"descriptor", is_eager ? "none" : to_string(decision.descriptor)},
               {"reason", name(decision.reason)}});
  }
}

void write_dispatch(Out out, From from) { write_decisions(out, from.engine.decisions); }

void write_draft_dispatch(Out out, From from) { write_decisions(out, from.engine.draft_decisions); }

template <typename Write>
void for_each_shadow(From from, const Write& write) {
  write("main", from.engine.shadow);
  if (!from.engine.draft_decisions.empty()) write("draft", from.engine.draft_shadow);
}

void write_shadow_checks(Out out, From from) {
  for_each_shadow(from, [&](std::string_view model, const api::ShadowStats& stats) {
    out.count(stats.num_checks, {{"model", model}});
  });
}

void write_shadow_differences(Out out, From from) {
  for_each_shadow(from, [&](std::string_view model, const api::ShadowStats& stats) {
    out.count(stats.num_differences, {{"model", model}});
  });
}

void write_quarantined(Out out, From from) {
  for_each_shadow(from, [&](std::string_view model, const api::ShadowStats& stats) {
    for (const api::ShadowStats::Quarantined& key : stats.quarantined) {
      out.sample(1,
                 {{"model", model},
                  {"runtime_mode", to_string(key.mode)},
                  {"descriptor", to_string(key.descriptor)}});
    }
  });
}

void write_captured(Out out, From from) {
  using Mode = cudagraph::CudagraphRuntimeMode;
  for (const Mode mode : {Mode::FULL, Mode::PIECEWISE}) {
    out.sample(num_captured(from, mode), {{"mode", to_string(mode)}});
  }
}

void write_keys(Out out, From from) {
  if (!from.engine.graphs) return;
  using cudagraph::KeyState;
  for (const KeyState state : {KeyState::planned,
                               KeyState::captured,
                               KeyState::retired,
                               KeyState::quarantined,
                               KeyState::dropped}) {
    out.count(from.engine.graphs->num_keys.at(static_cast<size_t>(state)),
              {{"state", to_string(state)}});
  }
}

void write_changes(Out out, From from) {
  if (!from.engine.graphs) return;
  out.count(from.engine.graphs->num_changes, {{"outcome", "applied"}});
  out.count(from.engine.graphs->num_refused, {{"outcome", "refused"}});
}

void write_change_captures(Out out, From from) {
  if (!from.engine.graphs) return;
  out.count(from.engine.graphs->num_captures, {{"outcome", "captured"}});
  out.count(from.engine.graphs->num_failed_captures, {{"outcome", "failed"}});
}

void write_plan(Out out, From from) {
  if (!from.engine.graphs) return;
  out.sample(1,
             {{"cudagraph_mode", to_string(from.engine.graphs->mode)},
              {"verify_graphs", to_string(from.engine.graphs->verify_graphs)}});
}

void write_verdicts(Out out, From from) {
  for (size_t i = 0; i < cudagraph::kNumCaptureVerdicts; ++i) {
    const auto verdict = static_cast<cudagraph::CaptureVerdict>(i);
    out.count(from.startup.capture.num_with(verdict), {{"verdict", to_string(verdict)}});
  }
}

void write_compile_seconds(Out out, From from) {
  const compile::CompilationSeconds& seconds = from.startup.compilation.seconds;
  out.sample(seconds.trace, {{"stage", "trace"}});
  out.sample(seconds.split, {{"stage", "split"}});
  out.sample(seconds.passes, {{"stage", "passes"}});
  out.sample(seconds.plan, {{"stage", "plan"}});
  out.sample(seconds.codegen, {{"stage", "codegen"}});
  out.sample(seconds.cache_load, {{"stage", "cache_load"}});
  out.sample(seconds.cache_save, {{"stage", "cache_save"}});
}

void write_step_seconds(Out out, From from) {
  for (size_t i = 0; i < runner::kNumStepPhases; ++i) {
    out.sample(from.engine.step_times.seconds[i], {{"phase", runner::kStepPhaseNames[i]}});
  }
}

void write_expert_tokens(Out out, From from) {
  const api::EngineStats& stats = from.engine;
  if (stats.expert_layers.empty()) return;
  const size_t num_experts = stats.expert_tokens.size() / stats.expert_layers.size();
  for (size_t i = 0; i < stats.expert_tokens.size(); ++i) {
    out.count(stats.expert_tokens[i],
              {{"layer", std::to_string(stats.expert_layers[i / num_experts])},
               {"expert", std::to_string(i % num_experts)}});
  }
}

template <auto Member>
void write_transfer(Out out, From from) {
  const auto& counts = from.engine.kv_transfer;
  if (counts) out.sample(static_cast<double>((*counts).*Member));
}

template <auto Member>
void write_replay_log(Out out, From from) {
  const auto& counts = from.engine.replay_log;
  if (counts) out.count((*counts).*Member);
}

constexpr auto kOwnFamilies = std::to_array<MetricFamily>({
    {"reprise:steps_total",
     kCounter,
     "",
     "Steps that were computed.",
     [](Out out, From from) { out.count(from.engine.num_steps); }},
    {"reprise:failed_steps_total",
     kCounter,
     "",
     "Steps that failed; their requests ended with an error.",
     [](Out out, From from) { out.count(from.engine.num_failed_steps); }},
    {"reprise:step_seconds_total",
     kCounter,
     "phase",
     "Time spent in steps, by what was done. With --async-scheduling by two threads at once: the "
     "engine's "
     "waits for the one that computes.",
     write_step_seconds},
    {"reprise:dropped_tokens_total",
     kCounter,
     "",
     "Tokens that --async-scheduling sampled ahead for requests that had ended.",
     [](Out out, From from) { out.count(from.engine.dropped_tokens); }},
    {"reprise:postponed_tokens_total",
     kCounter,
     "",
     "How often an answer got its token in a later step, because the work of its constraint took "
     "longer than a step waits.",
     [](Out out, From from) { out.count(from.engine.postponed_tokens); }},
    {"reprise:expert_tokens_total",
     kCounter,
     "layer, expert",
     "Tokens that a router sent to an expert; padding does not count. Only with --expert-counters.",
     write_expert_tokens},
    {"reprise:cached_states",
     kGauge,
     "",
     "States of recurrent layers that cached prefixes hold.",
     [](Out out, From from) { out.sample(static_cast<double>(from.engine.cached_states)); }},
    {"reprise:cached_states_saved_total",
     kCounter,
     "",
     "States of recurrent layers that were copied into the cache.",
     [](Out out, From from) { out.count(from.engine.states_saved); }},
    {"reprise:cached_states_restored_total",
     kCounter,
     "",
     "States of recurrent layers that were copied out of the cache, for requests whose "
     "prompt began with a cached prefix.",
     [](Out out, From from) { out.count(from.engine.states_restored); }},
    {"reprise:kv_event_payloads_sent_total",
     kCounter,
     "",
     "Payloads of --kv-events-config, one per step that changed the cache, that were sent.",
     [](Out out, From from) { out.count(from.engine.kv_event_payloads_sent); }},
    {"reprise:kv_event_payloads_dropped_total",
     kCounter,
     "",
     "Payloads of --kv-events-config that were dropped because the queue was full; their numbers "
     "are missing for subscribers.",
     [](Out out, From from) { out.count(from.engine.kv_event_payloads_dropped); }},
    {"reprise:kv_event_payloads_missed_total",
     kCounter,
     "",
     "Payloads of --kv-events-config that a subscriber did not get, because it does not keep up "
     "and has as many waiting payloads as memory allows.",
     [](Out out, From from) { out.count(from.engine.kv_event_payloads_missed); }},
    {"reprise:replay_log_requests_total",
     kCounter,
     "",
     "Answers that were written to the replay log. This metric and the next two only with "
     "--replay-log.",
     write_replay_log<&replay_log::LogCounts::num_written>},
    {"reprise:replay_log_dropped_requests_total",
     kCounter,
     "",
     "Answers that are missing in the replay log, because the disk is full or too slow.",
     write_replay_log<&replay_log::LogCounts::num_dropped>},
    {"reprise:replay_log_bytes_total",
     kCounter,
     "",
     "Bytes that were written to the replay log.",
     write_replay_log<&replay_log::LogCounts::num_bytes>},
    {"reprise:kv_transfer_tokens_total",
     kCounter,
     "",
     "Tokens of prompts whose keys and values came from another engine. This metric and the next "
     "ones only with --kv-transfer-config.",
     write_transfer<&kv_cache::KvTransferCounts::tokens_fetched>},
    {"reprise:kv_transfer_bytes_total",
     kCounter,
     "",
     "Bytes of keys and values that came from another engine.",
     write_transfer<&kv_cache::KvTransferCounts::bytes_fetched>},
    {"reprise:kv_transfer_seconds_total",
     kCounter,
     "",
     "Seconds that their transfers took, failed ones too.",
     write_transfer<&kv_cache::KvTransferCounts::seconds>},
    {"reprise:kv_transfer_failures_total",
     kCounter,
     "",
     "Prompts that could not be fetched from another engine.",
     write_transfer<&kv_cache::KvTransferCounts::num_failed>},
    {"reprise:kv_transfer_waiting_bytes",
     kGauge,
     "",
     "Bytes of the prompts that wait here for another engine.",
     [](Out out, From from) {
       if (from.engine.kv_transfer) out.count(from.engine.kv_transfer->exports.bytes);
     }},
    {"reprise:kv_transfer_not_kept_total",
     kCounter,
     "reason",
     "Prompts that no other engine got: there was no room for them (refused), or none came in time "
     "(expired).",
     [](Out out, From from) {
       if (!from.engine.kv_transfer) return;
       const auto& exports = from.engine.kv_transfer->exports;
       out.count(exports.num_refused, {{"reason", "refused"}});
       out.count(exports.num_expired, {{"reason", "expired"}});
     }},
    {"reprise:cudagraph_dispatch_total",
     kCounter,
     "runtime_mode, descriptor, reason",
     "Steps by what they replayed and why; NONE ran eagerly.",
     write_dispatch},
    {"reprise:draft_cudagraph_dispatch_total",
     kCounter,
     "runtime_mode, descriptor, reason",
     "Steps of a draft model by what they replayed and why; NONE ran eagerly.",
     write_draft_dispatch},
    {"reprise:cudagraph_padding_tokens_total",
     kCounter,
     "",
     "Tokens that were computed only to fill the shape of a graph.",
     [](Out out, From from) { out.count(from.engine.padding_tokens); }},
    {"reprise:cudagraph_captured",
     kGauge,
     "mode",
     "Graphs that batches can replay now.",
     write_captured},
    {"reprise:cudagraph_plan_info",
     kGauge,
     "cudagraph_mode, verify_graphs",
     "1 for the mode and the verification that are in force now. POST /v1/graphs and SIGHUP change "
     "them.",
     write_plan},
    {"reprise:cudagraph_keys",
     kGauge,
     "state",
     "Graphs of the plan, also of a draft model: planned ones wait for their capture.",
     write_keys},
    {"reprise:cudagraph_changes_total",
     kCounter,
     "outcome",
     "Changes of the graphs while the engine ran.",
     write_changes},
    {"reprise:cudagraph_change_captures_total",
     kCounter,
     "outcome",
     "Graphs that were captured between steps because of a change; failed ones are retired.",
     write_change_captures},
    {"reprise:cudagraph_change_capture_seconds_total",
     kCounter,
     "",
     "Time of the captures between steps.",
     [](Out out, From from) {
       if (from.engine.graphs) out.sample(from.engine.graphs->capture_seconds);
     }},
    {"reprise:cudagraph_shadow_check_rate",
     kGauge,
     "",
     "The share of replayed steps that are checked (--shadow-check-rate), as it is now.",
     [](Out out, From from) {
       if (from.engine.graphs) out.sample(from.engine.graphs->shadow_check_rate);
     }},
    {"reprise:cudagraph_verified",
     kGauge,
     "verdict",
     "Graphs of the start by what --verify-graphs found out about them.",
     write_verdicts},
    {"reprise:cudagraph_retired",
     kGauge,
     "",
     "Graphs that cannot be replayed any more, or could not be captured.",
     [](Out out, From from) {
       const auto& records = from.startup.capture.records;
       const auto num_failed = std::count_if(
           records.begin(), records.end(), [](const auto& it) { return !it.failure.empty(); });
       out.count(from.engine.num_retired_graphs + static_cast<uint64_t>(num_failed));
     }},
    {"reprise:cudagraph_shadow_checks_total",
     kCounter,
     "model",
     "Replayed steps that were compared with an eager run of the same step (--shadow-check-rate), "
     "of the main model and of a draft model.",
     write_shadow_checks},
    {"reprise:cudagraph_shadow_differences_total",
     kCounter,
     "model",
     "Compared steps whose replay gave other bits; each quarantines its graph.",
     write_shadow_differences},
    {"reprise:cudagraph_quarantined",
     kGauge,
     "model, runtime_mode, descriptor",
     "1 for each graph that may not be replayed any more, because a replay gave wrong results or a "
     "request to /v1/graphs quarantined it.",
     write_quarantined},
    {"reprise:cudagraph_capture_seconds",
     kGauge,
     "",
     "Time that capturing took at the start.",
     [](Out out, From from) { out.sample(from.startup.capture.seconds); }},
    {"reprise:cudagraph_pool_bytes",
     kGauge,
     "",
     "Memory of captured graphs and their pool.",
     [](Out out, From from) {
       const auto& graphs = from.engine.graphs;
       out.sample(static_cast<double>(graphs ? graphs->graph_bytes : from.startup.graph_bytes));
     }},
    {"reprise:compile_cache_hits_total",
     kCounter,
     "",
     "Compiled programs that came from the compile cache.",
     [](Out out, From from) {
       out.count(from.startup.compilation.counter.num_compiled_artifacts_loaded);
     }},
    {"reprise:compile_cache_misses_total",
     kCounter,
     "",
     "Programs that had to be compiled.",
     [](Out out, From from) {
       out.count(from.startup.compilation.counter.num_backend_compilations);
     }},
    {"reprise:compile_seconds",
     kGauge,
     "stage",
     "Time that compiling took at the start, by stage.",
     write_compile_seconds},
    {"reprise:startup_seconds",
     kGauge,
     "",
     "Seconds from reading the first file until the server was ready.",
     [](Out out, From from) { out.sample(from.startup.total_seconds); }},
    {"reprise:dropped_log_lines_total",
     kCounter,
     "",
     "Lines of the log that were dropped, because standard error was not read.",
     [](Out out, From from) { out.count(from.dropped_log_lines); }},
    {"reprise:trace_spans_exported_total",
     kCounter,
     "",
     "Trace spans that the collector has taken. This metric and the next one only with "
     "--otlp-traces-endpoint.",
     [](Out out, From from) {
       if (from.spans) out.count(from.spans->num_exported);
     }},
    {"reprise:trace_spans_dropped_total",
     kCounter,
     "",
     "Trace spans that were dropped, because the collector was slow or did not take them.",
     [](Out out, From from) {
       if (from.spans) out.count(from.spans->num_dropped);
     }},
    {"reprise:engine_is_dead",
     kGauge,
     "",
     "1 once the device is lost; the server has to be restarted.",
     [](Out out, From from) { out.sample(from.engine.is_dead ? 1 : 0); }},
});

}  // namespace

MetricGroup own_metrics() {
  return {"Graphs, compiling and steps", MetricGroup::Scope::engine, kOwnFamilies};
}

}  // namespace reprise::server
