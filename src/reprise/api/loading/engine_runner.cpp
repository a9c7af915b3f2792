#include "reprise/api/loading/engine_runner.h"

#include <vector>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/graph_trust.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/cudagraph/verify/verify_graphs.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kv_cache/events/kv_event_recorder.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/expert_counts.h"
#include "reprise/runner/model_attention.h"

namespace reprise::api {

kv_cache::KvCacheLayout kv_cache_layout(const LoadedEngine& engine, int64_t num_blocks) {
  const ResolvedOptions& options = *engine.options;
  return runner::kv_cache_layout_of(options.rank_config,
                                    num_blocks,
                                    engine.args.block_size,
                                    options.dtype,
                                    options.kv_cache_dtype);
}

kv_cache::StateCacheLayout state_cache_layout(const LoadedEngine& engine, int64_t num_snapshots) {
  const int64_t slots_per_req = engine.options->state_slots_per_req();
  return runner::state_cache_layout_of(engine.options->config,
                                       engine.args.max_num_seqs * slots_per_req + num_snapshots,
                                       slots_per_req);
}

namespace {

/// vLLM warms up once per size because a GPU loads kernels lazily. Reprise's kernels are already
/// loaded, but those of a library may not be. On a CPU a warm-up has no such effect, so it runs
/// only on request.
int num_warmups(const LoadedEngine& engine) {
  const bool warms_up = engine.device->is_gpu() ||
                        engine.args.compilation_config.contains("cudagraph_num_of_warmups");
  return warms_up ? engine.options->graphs.num_of_warmups : 0;
}

/// See SchedulerConfig::state_chunk_tokens.
int state_chunk_tokens(const LoadedEngine& engine) {
  const ResolvedOptions& options = *engine.options;
  if (options.config.num_recurrent_layers() == 0) return 1;
  return engine.device->execution->executor().state_chunk_tokens(options.dtype);
}

}  // namespace

runner::GraphSettings graph_settings(const LoadedEngine& engine) {
  const ResolvedOptions& options = *engine.options;
  return {
      .dispatcher = config::dispatcher_options(options.graph_inputs, options.graphs),
      .num_warmups = num_warmups(engine),
      .verify_graphs = cudagraph::parse_verify_graphs("--verify-graphs", engine.args.verify_graphs),
      .shadow_rate = engine.args.shadow_check_rate,
      .about = shadow_check_options(engine).about};
}

std::unique_ptr<runner::ModelRunner> create_runner(const LoadedEngine& engine,
                                                   const kv_cache::KvCacheLayout& blocks,
                                                   const kv_cache::StateCacheLayout& states,
                                                   const cudagraph::DispatcherOptions& dispatcher) {
  const EngineArgs& args = engine.args;
  const ResolvedOptions& options = *engine.options;
  const bool is_gpu = engine.device->is_gpu();
  return std::make_unique<runner::ModelRunner>(
      *engine.device->execution,
      *engine.model,
      *engine.parameters,
      runner::ModelRunnerOptions{
          .limits = {.max_num_tokens = args.max_num_batched_tokens,
                     .max_num_reqs = args.max_num_seqs,
                     .max_sampled_rows_per_req =
                         options.draft_head ? 1 : 1 + options.num_speculative_tokens(),
                     .max_num_prompt_logits = scheduler::SchedulerConfig{}.max_prompt_logits,
                     .max_blocks_per_req =
                         (options.max_model_len + args.block_size - 1) / args.block_size,
                     .block_size = args.block_size,
                     .second_text_offset =
                         static_cast<int32_t>(options.config.second_text_offset()),
                     .has_encoder = options.config.encoder.has_value(),
                     .state_slots_per_req = options.state_slots_per_req()},
          .kv_cache = blocks,
          .states = states,
          .dispatcher = dispatcher,
          .attention = options.attention,
          .recurrent = options.recurrent,
          // A GPU runs several hundred thread blocks at the same time.
          .attention_plan = {.wanted_items = is_gpu ? 512 : 128},
          .cascade_workers = args.disable_cascade_attn ? 0 : engine.device->num_workers,
          .adapters = engine.adapter_slots.get(),
          .expert_counts = engine.expert_counts.get(),
          .ranks = args.ranks,
          .op_ranks = args.tensor_ranks != nullptr ? args.tensor_ranks : args.expert_engines,
          .data_parallel = engine.data_parallel.get(),
          .num_warmups = num_warmups(engine),
          .copy_inputs = options.graph_inputs.compilation.cudagraph_copy_inputs,
          .lazy_capture = options.graph_inputs.compilation.cudagraph_lazy_capture,
          .verify_graphs = cudagraph::parse_verify_graphs("--verify-graphs", args.verify_graphs),
          .shadow = shadow_check_options(engine),
          .keep_inventory = args.keep_graph_inventory,
          .strict_graphs = args.strict_graphs});
}

engine::EngineCoreOptions core_options(const LoadedEngine& engine, bool caches_prefixes) {
  const EngineArgs& args = engine.args;
  const ResolvedOptions& options = *engine.options;
  // The vector of a prompt counts as one more token, which is never computed. Texts that must be
  // computed in one step are neither cut nor shared.
  const bool pools = options.config.pooling.has_value();
  const bool is_whole = options.config.computes_whole_texts();
  return {.scheduler = {.max_num_seqs = args.max_num_seqs,
                        .max_num_batched_tokens = args.max_num_batched_tokens,
                        .max_model_len = engine.report.max_model_len + (pools ? 1 : 0),
                        .enable_chunked_prefill = args.enable_chunked_prefill && !is_whole,
                        .long_prefill_token_threshold = args.long_prefill_token_threshold,
                        .decode_query_len = options.graphs.uniform_decode_query_len,
                        .drafts_by_batch_size = speculative::drafts_by_batch_size(
                            options.draft_schedule(), args.max_num_seqs),
                        .fewer_draft_widths = options.graphs.fewer_draft_widths(),
                        .pad_drafts = cudagraph::separate_routine(options.graphs.mode),
                        .recomputes_last_cached_block =
                            engine.drafter != nullptr && engine.drafter->follows_steps(),
                        .policy = args.scheduling_policy,
                        .is_pooling = pools,
                        .decoder_prompt = options.config.encoder
                                              ? options.config.encoder->decoder_prompt
                                              : std::vector<int32_t>(),
                        .async_scheduling = options.async_scheduling,
                        .max_loras = args.enable_lora ? args.max_loras : 0,
                        .least_common_prefix_reqs = engine.runner->least_cascade_reqs(),
                        .prefix_cache_retention_interval = args.prefix_cache_retention_interval,
                        .state_chunk_tokens = state_chunk_tokens(engine),
                        .eos_token_ids = options.end_token_ids,
                        .vocab_size = static_cast<int>(options.config.vocab_size),
                        .max_logprobs = options.max_logprobs},
          .seed = args.seed,
          .enable_prefix_caching = caches_prefixes,
          .num_state_snapshots = static_cast<int>(engine.report.num_state_snapshots),
          .row_sampler = engine.row_sampler.get(),
          .drafter = engine.drafter.get(),
          .expert_counts = engine.expert_counts.get(),
          .shadow = engine.runner->shadow(),
          .cache_listener = engine.event_recorder.get()};
}

}  // namespace reprise::api
