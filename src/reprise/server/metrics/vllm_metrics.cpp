#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "reprise/server/metrics/metric_table.h"
#include "reprise/server/openai/generation_service.h"

namespace reprise::server {
namespace {

// Names, types, labels and buckets are the same as vLLM's; the descriptions are our own.
constexpr auto kVllmFamilies = std::to_array<MetricFamily>({
    {"vllm:num_requests_running",
     kGauge,
     "",
     "Requests that take part in steps.",
     [](Out out, From from) { out.sample(static_cast<double>(from.engine.num_requests_running)); }},
    {"vllm:num_requests_waiting",
     kGauge,
     "",
     "Requests that wait for their first or next step.",
     [](Out out, From from) { out.sample(static_cast<double>(from.engine.num_requests_waiting)); }},
    {"vllm:num_requests_waiting_by_reason",
     kGauge,
     "reason",
     "vllm:num_requests_waiting by what they wait for: capacity of the engine, or something else "
     "(deferred).",
     [](Out out, From from) {
       out.sample(static_cast<double>(from.engine.num_requests_waiting), {{"reason", "capacity"}});
       out.sample(0, {{"reason", "deferred"}});
     }},
    {"vllm:kv_cache_usage_perc",
     kGauge,
     "",
     "Share of the KV cache's blocks in use; 1 is all of them.",
     [](Out out, From from) { out.sample(from.engine.kv_cache_usage); }},
    {"vllm:gpu_cache_usage_perc",
     kGauge,
     "",
     "Former name of vllm:kv_cache_usage_perc.",
     [](Out out, From from) { out.sample(from.engine.kv_cache_usage); }},
    {"vllm:cache_config_info",
     kGauge,
     "block_size, num_gpu_blocks, cache_dtype, kv_cache_size_tokens, kv_cache_max_concurrency",
     "How the KV cache is laid out, in labels; always 1.",
     [](Out out, From from) {
       const api::StartupReport& report = from.startup;
       const int64_t tokens = report.num_kv_blocks * report.kv_block_size;
       const double concurrency =
           static_cast<double>(tokens) / static_cast<double>(report.max_model_len);
       out.sample(
           1,
           {{"block_size", std::to_string(report.kv_block_size)},
            {"num_gpu_blocks", std::to_string(report.num_kv_blocks)},
            {"cache_dtype", report.kv_cache_dtype == "auto" ? report.dtype : report.kv_cache_dtype},
            {"kv_cache_size_tokens", std::to_string(tokens)},
            {"kv_cache_max_concurrency", std::to_string(concurrency)}});
     }},
    {"vllm:engine_sleep_state",
     kGauge,
     "sleep_state",
     "1 for the state of the engine: awake, or asleep without its KV cache (weights_offloaded) or "
     "without weights too (discard_all). A pause is neither.",
     [](Out out, From from) {
       const std::optional<api::SleepLevel> level = from.engine.sleep_level;
       out.sample(level ? 0 : 1, {{"sleep_state", "awake"}});
       out.sample(level == api::SleepLevel::offload ? 1 : 0,
                  {{"sleep_state", "weights_offloaded"}});
       out.sample(level == api::SleepLevel::discard ? 1 : 0, {{"sleep_state", "discard_all"}});
     }},
    {"vllm:lora_requests_info",
     kGauge,
     "max_lora, waiting_lora_adapters, running_lora_adapters",
     "Adapters of requests that wait and that run, in labels; the value is the time in seconds "
     "since 1970. Only with --enable-lora.",
     [](Out out, From from) {
       const api::AdapterStats& adapters = from.engine.adapters;
       if (adapters.max_loras == 0) return;
       out.sample(adapters.at,
                  {{"max_lora", std::to_string(adapters.max_loras)},
                   {"waiting_lora_adapters", fmt::format("{}", fmt::join(adapters.waiting, ","))},
                   {"running_lora_adapters", fmt::format("{}", fmt::join(adapters.running, ","))}});
     }},
    {"vllm:prompt_tokens_total",
     kCounter,
     "",
     "Tokens of prompts that were answered with at least one token; each prompt counts once.",
     [](Out out, From from) { out.count(from.engine.prompt_tokens); }},
    {"vllm:prompt_tokens_by_source_total",
     kCounter,
     "source",
     "vllm:prompt_tokens_total by where their KV entries came from.",
     [](Out out, From from) {
       out.count(from.engine.prompt_tokens - from.engine.prompt_tokens_cached,
                 {{"source", "local_compute"}});
       out.count(from.engine.prompt_tokens_cached - from.engine.prompt_tokens_imported,
                 {{"source", "local_cache_hit"}});
       out.count(from.engine.prompt_tokens_imported, {{"source", "external_kv_transfer"}});
     }},
    {"vllm:prompt_tokens_cached_total",
     kCounter,
     "",
     "Prompt tokens that were not computed: the prefix cache or another engine had them.",
     [](Out out, From from) { out.count(from.engine.prompt_tokens_cached); }},
    {"vllm:generation_tokens_total",
     kCounter,
     "",
     "Tokens that were sampled.",
     [](Out out, From from) { out.count(from.engine.generation_tokens); }},
    {"vllm:request_success_total",
     kCounter,
     "finished_reason",
     "Requests that ended, by why: stop, length, abort or error.",
     [](Out out, From from) {
       out.count(from.engine.num_finished_stop, {{"finished_reason", "stop"}});
       out.count(from.engine.num_finished_length, {{"finished_reason", "length"}});
       out.count(from.engine.num_finished_abort, {{"finished_reason", "abort"}});
       out.count(from.engine.num_finished_error, {{"finished_reason", "error"}});
     }},
    {"vllm:num_preemptions_total",
     kCounter,
     "",
     "Times a running request lost its blocks to another one and had to be recomputed.",
     [](Out out, From from) { out.count(from.engine.num_preemptions); }},
    {"vllm:prefix_cache_queries_total",
     kCounter,
     "",
     "Tokens that were looked up in the prefix cache.",
     [](Out out, From from) { out.count(from.engine.prefix_cache_queries); }},
    {"vllm:prefix_cache_hits_total",
     kCounter,
     "",
     "Tokens that the prefix cache had.",
     [](Out out, From from) { out.count(from.engine.prefix_cache_hits); }},
    {"vllm:gpu_prefix_cache_queries_total",
     kCounter,
     "",
     "Former name of vllm:prefix_cache_queries_total.",
     [](Out out, From from) { out.count(from.engine.prefix_cache_queries); }},
    {"vllm:gpu_prefix_cache_hits_total",
     kCounter,
     "",
     "Former name of vllm:prefix_cache_hits_total.",
     [](Out out, From from) { out.count(from.engine.prefix_cache_hits); }},
    {"vllm:spec_decode_num_drafts_total",
     kCounter,
     "",
     "Runs of draft tokens that were verified: one per request and step with drafts.",
     [](Out out, From from) { out.count(from.engine.speculation.num_drafts); }},
    {"vllm:spec_decode_num_draft_tokens_total",
     kCounter,
     "",
     "Draft tokens that were verified.",
     [](Out out, From from) { out.count(from.engine.speculation.num_draft_tokens); }},
    {"vllm:spec_decode_num_accepted_tokens_total",
     kCounter,
     "",
     "Draft tokens that were accepted.",
     [](Out out, From from) { out.count(from.engine.speculation.num_accepted_tokens); }},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total",
     kCounter,
     "position",
     "Draft tokens that were accepted, by their position in a run; 0 is the first.",
     [](Out out, From from) {
       const auto& accepted = from.engine.speculation.num_accepted_tokens_per_pos;
       for (size_t i = 0; i < accepted.size(); ++i) {
         const std::string position = std::to_string(i);
         out.count(accepted[i], {{"position", position}});
       }
     }},
    {"vllm:iteration_tokens_total",
     kHistogram,
     "",
     "Prompt tokens computed and tokens sampled, per step.",
     [](Out out, From from) { out.histogram(from.engine.tokens_per_step); }},
    {"vllm:time_to_first_token_seconds",
     kHistogram,
     "",
     "From a request's arrival, before tokenising, to its first token.",
     [](Out out, From from) { out.histogram(from.engine.requests.time_to_first_token); }},
    {"vllm:inter_token_latency_seconds",
     kHistogram,
     "",
     "Between two tokens of a request.",
     [](Out out, From from) { out.histogram(from.engine.requests.inter_token_latency); }},
    {"vllm:time_per_output_token_seconds",
     kHistogram,
     "",
     "Former name of vllm:inter_token_latency_seconds.",
     [](Out out, From from) { out.histogram(from.engine.requests.inter_token_latency); }},
    {"vllm:request_time_per_output_token_seconds",
     kHistogram,
     "",
     "Mean time per token of a request after its first one; 0 where there is no other.",
     [](Out out, From from) { out.histogram(from.engine.requests.time_per_output_token); }},
    {"vllm:e2e_request_latency_seconds",
     kHistogram,
     "",
     "From a request's arrival to its last token.",
     [](Out out, From from) { out.histogram(from.engine.requests.e2e_latency); }},
    {"vllm:request_queue_time_seconds",
     kHistogram,
     "",
     "From the engine's queue to the first step of a request.",
     [](Out out, From from) { out.histogram(from.engine.requests.queue_time); }},
    {"vllm:request_inference_time_seconds",
     kHistogram,
     "",
     "From the first step of a request to its last token.",
     [](Out out, From from) { out.histogram(from.engine.requests.inference_time); }},
    {"vllm:request_prefill_time_seconds",
     kHistogram,
     "",
     "From the first step of a request to its first token.",
     [](Out out, From from) { out.histogram(from.engine.requests.prefill_time); }},
    {"vllm:request_decode_time_seconds",
     kHistogram,
     "",
     "From the first to the last token of a request.",
     [](Out out, From from) { out.histogram(from.engine.requests.decode_time); }},
    {"vllm:request_prompt_tokens",
     kHistogram,
     "",
     "Tokens of a request's prompt.",
     [](Out out, From from) { out.histogram(from.engine.requests.prompt_tokens); }},
    {"vllm:request_generation_tokens",
     kHistogram,
     "",
     "Tokens that a request was answered with.",
     [](Out out, From from) { out.histogram(from.engine.requests.generation_tokens); }},
    {"vllm:request_prefill_kv_computed_tokens",
     kHistogram,
     "",
     "Tokens of a request's prompt that were computed, cached ones left out.",
     [](Out out, From from) { out.histogram(from.engine.requests.prefill_computed_tokens); }},
    {"vllm:request_params_max_tokens",
     kHistogram,
     "",
     "max_tokens of requests that have one.",
     [](Out out, From from) { out.histogram(from.engine.requests.params_max_tokens); }},
    {"vllm:request_params_n",
     kHistogram,
     "",
     "How many answers to a prompt were asked for.",
     [](Out out, From from) { out.histogram(from.generations.params_n); }},
    {"vllm:request_max_num_generation_tokens",
     kHistogram,
     "",
     "Tokens of the longest of the answers to a prompt.",
     [](Out out, From from) { out.histogram(from.generations.max_num_generation_tokens); }},
});

}  // namespace

MetricGroup vllm_metrics() {
  return {"Requests and the engine, as vLLM names them", MetricGroup::Scope::engine, kVllmFamilies};
}

}  // namespace reprise::server
