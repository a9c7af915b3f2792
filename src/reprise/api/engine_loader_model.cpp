// The part of the engine loader that makes the model.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "reprise/api/draft_head.h"
#include "reprise/api/engine_device.h"
#include "reprise/api/engine_loader.h"
#include "reprise/api/loaded_engine.h"
#include "reprise/api/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/compile/model/extensions.h"
#include "reprise/runner/expert_counts.h"

namespace reprise::api {

std::unique_ptr<models::CausalLM> EngineLoader::create_loaded_model(
    const weights::WeightSource& source) {
  const ResolvedOptions& options = *engine_->options;
  if (options.draft_head) {
    return create_draft_head(engine_->args, options, source, *engine_->parameters, *target_);
  }
  std::unique_ptr<models::CausalLM> model = models::create_model(options.rank_config,
                                                                 options.max_model_len,
                                                                 *engine_->parameters,
                                                                 engine_->adapter_slots.get(),
                                                                 reserve_expert_counts());
  model->set_auxiliary(options.auxiliary);
  return model;
}

const models::ExpertCounting* EngineLoader::reserve_expert_counts() {
  EngineArgs& args = engine_->args;
  if (!args.expert_counters) return nullptr;
  const weights::ModelConfig& config = engine_->options->config;
  if (!config.moe) {
    engine_->report.warnings.push_back(
        fmt::format("--expert-counters has no effect: {} has no experts",
                    weights::architecture_name(config.architecture)));
    return nullptr;
  }
  if (engine_->device->is_gpu()) {
    throw InvalidArgument("--expert-counters: only CPUs count the tokens of experts; leave it out");
  }
  if (const auto& experts = engine_->options->rank_config.moe; experts && experts->engines > 1) {
    throw InvalidArgument(
        "--expert-counters: engines that share experts (--data-parallel-size with "
        "--enable-expert-parallel) do not count their tokens; leave one of the options out");
  }
  compile::Extensions all;
  if (args.extensions != nullptr) all = *args.extensions;
  all.add_op(engine::make_expert_counter());
  args.extensions = std::make_shared<const compile::Extensions>(std::move(all));
  engine_->expert_counts =
      std::make_unique<engine::ExpertCounts>(config,
                                             *args.extensions->find_op(engine::kExpertCounterName),
                                             *engine_->device->device,
                                             engine_->device->execution->executor());
  return &engine_->expert_counts->counting();
}

}  // namespace reprise::api
