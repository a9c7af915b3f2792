#include "reprise/api/loading/draft_engine.h"

#include <algorithm>
#include <cstdint>

#include "reprise/api/loading/draft_head.h"
#include "reprise/api/loading/draft_model.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/models/draft_head.h"
#include "reprise/runner/head_drafter.h"
#include "reprise/runner/model_drafter.h"
#include "reprise/runner/model_runner.h"
#include "reprise/speculative/make_drafter.h"

namespace reprise::api {
namespace {

std::unique_ptr<speculative::Drafter> create_head_drafter(const LoadedEngine& main,
                                                          LoadedEngine& draft) {
  const ResolvedOptions& options = *main.options;
  const int32_t longest = options.speculative_config->draft_model.max_model_len.value_or(INT32_MAX);
  return std::make_unique<runner::HeadDrafter>(
      *draft.runner,
      dynamic_cast<models::DraftHead&>(*draft.model),
      runner::HeadDrafterOptions{.max_num_reqs = draft.args.max_num_seqs,
                                 .max_num_tokens = draft.args.max_num_batched_tokens,
                                 .max_model_len = std::min(longest, main.report.max_model_len),
                                 .num_speculative_tokens = options.num_speculative_tokens(),
                                 .num_main_blocks = main.report.num_kv_blocks,
                                 .row_sampler = draft.row_sampler.get()});
}

std::unique_ptr<speculative::Drafter> create_model_drafter(const LoadedEngine& main,
                                                           LoadedEngine& draft) {
  const ResolvedOptions& options = *main.options;
  return std::make_unique<runner::ModelDrafter>(
      *draft.runner,
      runner::ModelDrafterOptions{
          .max_num_reqs = draft.args.max_num_seqs,
          .max_num_tokens = draft.args.max_num_batched_tokens,
          .max_model_len = draft.report.max_model_len,
          .vocab_size = static_cast<int32_t>(draft.options->config.vocab_size),
          .num_speculative_tokens = options.num_speculative_tokens(),
          .prefix_caching = draft.args.enable_prefix_caching.value_or(true)
                                ? kv_cache::PrefixCaching::on
                                : kv_cache::PrefixCaching::off,
          .sample_method = options.speculative_config->draft_model.sample_method,
          .row_sampler = draft.row_sampler.get()});
}

}  // namespace

std::unique_ptr<LoadedEngine> resolve_draft_engine(LoadedEngine& main) {
  ResolvedOptions& options = *main.options;
  if (!has_draft_model(options)) return nullptr;
  const bool is_head = has_draft_head(options);
  std::unique_ptr<LoadedEngine> draft = begin_engine(
      is_head ? draft_head_args(main.args, options) : draft_model_args(main.args, options));
  draft->options =
      std::make_unique<ResolvedOptions>(is_head ? resolve_draft_head(draft->args, options)
                                                : resolve_draft_model(draft->args, options));
  return draft;
}

int64_t num_draft_blocks(const LoadedEngine& draft, int64_t num_main_blocks) {
  if (!draft.options->draft_head) return num_main_blocks;
  return runner::HeadDrafter::num_blocks(num_main_blocks,
                                         draft.args.max_num_seqs,
                                         draft.options->num_speculative_tokens(),
                                         draft.args.block_size);
}

int64_t drafter_bytes(const LoadedEngine* draft) {
  if (draft == nullptr || draft->runner == nullptr || !draft->options->draft_head) return 0;
  return runner::HeadDrafter::memory_bytes(*draft->runner,
                                           dynamic_cast<models::DraftHead&>(*draft->model),
                                           draft->args.max_num_batched_tokens,
                                           draft->args.max_num_seqs);
}

std::unique_ptr<speculative::Drafter> create_drafter(const LoadedEngine& main,
                                                     LoadedEngine* draft) {
  const ResolvedOptions& options = *main.options;
  if (!options.speculative_config) return nullptr;
  if (draft == nullptr) return speculative::make_drafter(*options.speculative_config);
  return draft->options->draft_head ? create_head_drafter(main, *draft)
                                    : create_model_drafter(main, *draft);
}

}  // namespace reprise::api
