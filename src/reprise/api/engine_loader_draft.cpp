#include <algorithm>
#include <memory>
#include <utility>

#include "reprise/api/draft_head.h"
#include "reprise/api/draft_model.h"
#include "reprise/api/engine_loader.h"
#include "reprise/api/loaded_engine.h"
#include "reprise/api/model_text.h"
#include "reprise/base/error.h"
#include "reprise/runner/head_drafter.h"
#include "reprise/runner/model_drafter.h"
#include "reprise/runner/model_runner.h"
#include "reprise/speculative/make_drafter.h"

// The part of the engine loader that loads the model of --speculative-config. A second loader on
// the same device does the work, without text and scheduler.
namespace reprise::api {

void EngineLoader::resolve_draft() {
  ResolvedOptions& options = *engine_->options;
  if (!has_draft_model(options)) return;
  const bool is_head = has_draft_head(options);
  draft_ = std::unique_ptr<EngineLoader>(new EngineLoader(
      is_head ? draft_head_args(engine_->args, options) : draft_model_args(engine_->args, options),
      no_observer_));
  LoadedEngine& draft = *draft_->engine_;
  draft.options = std::make_unique<ResolvedOptions>(
      is_head ? resolve_draft_head(draft.args, options) : resolve_draft_model(draft.args, options));
  draft_->report_options();
}

void EngineLoader::load_draft() {
  if (draft_->engine_->options->draft_head) {
    draft_->target_ = engine_->model.get();
  } else {
    check_same_tokens(engine_->text->tokenizer(), draft_->engine_->args.model);
  }
  draft_->engine_->device = engine_->device;
  draft_->load_model();
}

/// Gives the draft model's cache as many blocks as the main model's. A draft head gets its scratch
/// blocks too.
void EngineLoader::build_draft_runner() {
  EngineArgs& args = draft_->engine_->args;
  ResolvedOptions& options = *draft_->engine_->options;
  int64_t num_blocks = engine_->report.num_kv_blocks - 1;  // without the null block
  const int64_t longest = num_blocks * args.block_size;
  if (options.draft_head) {
    num_blocks = engine::HeadDrafter::num_blocks(
        num_blocks, args.max_num_seqs, options.num_speculative_tokens(), args.block_size);
  }
  options.max_model_len = static_cast<int32_t>(std::min<int64_t>(options.max_model_len, longest));
  args.max_model_len = options.max_model_len;
  args.num_gpu_blocks_override = num_blocks;
  draft_->build_runner();
}

void EngineLoader::build_drafter() {
  const ResolvedOptions& options = *engine_->options;
  if (!options.speculative_config) return;
  if (draft_ == nullptr) {
    engine_->drafter = speculative::make_drafter(*options.speculative_config);
    return;
  }
  LoadedEngine& draft = *draft_->engine_;
  if (draft.options->draft_head) return build_head_drafter();
  engine_->drafter = std::make_unique<engine::ModelDrafter>(
      *draft.runner,
      engine::ModelDrafterOptions{
          .max_num_reqs = draft.args.max_num_seqs,
          .max_num_tokens = draft.args.max_num_batched_tokens,
          .max_model_len = draft.report.max_model_len,
          .vocab_size = static_cast<int32_t>(draft.options->config.vocab_size),
          .num_speculative_tokens = options.num_speculative_tokens(),
          .prefix_caching = draft.args.enable_prefix_caching.value_or(true)
                                ? kv_cache::PrefixCaching::on
                                : kv_cache::PrefixCaching::off,
          .sample_method = options.speculative_config->draft_model.sample_method});
}

void EngineLoader::build_head_drafter() {
  LoadedEngine& draft = *draft_->engine_;
  const ResolvedOptions& options = *engine_->options;
  const int32_t wish = options.speculative_config->draft_model.max_model_len.value_or(INT32_MAX);
  engine_->drafter = std::make_unique<engine::HeadDrafter>(
      *draft.runner,
      dynamic_cast<models::DraftHead&>(*draft.model),
      engine::HeadDrafterOptions{.max_num_reqs = draft.args.max_num_seqs,
                                 .max_num_tokens = draft.args.max_num_batched_tokens,
                                 .max_model_len = std::min(wish, engine_->report.max_model_len),
                                 .num_speculative_tokens = options.num_speculative_tokens(),
                                 .num_main_blocks = engine_->report.num_kv_blocks});
}

void EngineLoader::finish_draft() {
  draft_->add_memory();
  draft_->capture();
  for (const std::string& warning : draft_->engine_->report.warnings) {
    engine_->report.warnings.push_back("draft model: " + warning);
  }
  engine_->draft = std::move(draft_->engine_);
  engine_->report.draft_model = std::make_shared<const StartupReport>(engine_->draft->report);
}

}  // namespace reprise::api
