#include "reprise/api/loading/model_weights.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "reprise/api/loading/draft_head.h"
#include "reprise/api/loading/packed_weights.h"
#include "reprise/api/loading/weight_files.h"
#include "reprise/api/options/memory_size.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/base/error.h"
#include "reprise/compile/model/extensions.h"
#include "reprise/weights/config/expected_tensors.h"

namespace reprise::api {
namespace {

std::unique_ptr<lora::AdapterSlots> reserve_adapters(const EngineArgs& args,
                                                     models::Parameters& parameters) {
  auto slots = std::make_unique<lora::AdapterSlots>(args.max_loras, args.max_lora_rank);
  slots->set_token_slots(
      parameters.add_buffer("lora_token_slots", {DType::i32, {args.max_num_batched_tokens}}));
  return slots;
}

/// Makes room for counts of the tokens of experts, if the user asks for these counts. nullptr:
/// nothing is counted.
std::unique_ptr<runner::ExpertCounts> reserve_expert_counts(EngineArgs& args,
                                                            const ResolvedOptions& options,
                                                            EngineDevice& device,
                                                            StartupReport& report) {
  if (!args.expert_counters) return nullptr;
  if (!options.config.moe) {
    report.warnings.push_back(fmt::format("--expert-counters has no effect: {} has no experts",
                                          weights::architecture_name(options.config.architecture)));
    return nullptr;
  }
  if (const auto& experts = options.rank_config.moe; experts && experts->engines > 1) {
    throw InvalidArgument(
        "--expert-counters: engines that share experts (--data-parallel-size with "
        "--enable-expert-parallel) do not count their tokens; leave one of the options out");
  }
  compile::Extensions all;
  if (args.extensions != nullptr) all = *args.extensions;
  all.add_op(runner::make_expert_counter(device.is_gpu() ? &device.accelerator->expert_counter()
                                                         : nullptr));
  args.extensions = std::make_shared<const compile::Extensions>(std::move(all));
  return std::make_unique<runner::ExpertCounts>(
      options.config,
      *args.extensions->find_op(runner::kExpertCounterName),
      *device.device,
      device.execution->executor());
}

std::unique_ptr<models::CausalLM> make_model(const EngineArgs& args,
                                             const ResolvedOptions& options,
                                             const weights::WeightSource& source,
                                             const models::CausalLM* target,
                                             ModelWeights& weights) {
  if (options.draft_head) {
    return create_draft_head(args, options, source, *weights.parameters, *target);
  }
  std::unique_ptr<models::CausalLM> model =
      models::create_model(options.rank_config,
                           options.max_model_len,
                           *weights.parameters,
                           weights.adapter_slots.get(),
                           weights.expert_counts ? &weights.expert_counts->counting() : nullptr);
  model->set_auxiliary(options.auxiliary);
  return model;
}

/// Says what many rows of float8 weights are multiplied with, where a device has a choice. The
/// models that share an executor all keep their activations if one of them must.
void settle_activations(const weights::QuantizationConfig& quantization,
                        runner::Execution& execution,
                        const models::Parameters& weights,
                        StartupReport& report) {
  kernels::DeviceExecutor& executor = execution.executor();
  if (quantization.keeps_activations) executor.keep_activations();
  for (const PanelFormat codec : {PanelFormat::f8e4m3_rows, PanelFormat::f8e4m3_g128}) {
    if (!weights.has_codec(codec)) continue;
    std::string remark = executor.remark_on(codec, weights.dtype());
    if (!remark.empty()) report.warnings.push_back(std::move(remark));
  }
}

}  // namespace

ModelWeights load_model_weights(EngineArgs& args,
                                ResolvedOptions& options,
                                EngineDevice& device,
                                const models::CausalLM* target,
                                const StartupObserver& observer,
                                StartupReport& report) {
  const auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<weights::WeightSource> source =
      open_engine_weights(args, options, report.warnings, observer.on_weights);
  report.num_parameters = weights::num_parameters(options.config);
  const WeightFamilies families = device.execution->executor().weight_families();
  check_weights_fit(weight_bytes(*source, options.rank_config, options.dtype, families),
                    *device.device);
  ModelWeights weights;
  weights.parameters = std::make_unique<models::Parameters>(*source,
                                                            options.dtype,
                                                            *device.device,
                                                            device.execution->stream(),
                                                            device.execution->executor(),
                                                            families);
  PackedWeights packed(args, options, device, report);
  packed.lend_to(*weights.parameters);
  if (args.enable_lora) weights.adapter_slots = reserve_adapters(args, *weights.parameters);
  if (!options.draft_head) {
    weights.expert_counts = reserve_expert_counts(args, options, device, report);
  }
  weights.model = make_model(args, options, *source, target, weights);
  weights.parameters->finish_loading();
  if (const std::string& reason = weights.parameters->unpacked_experts(); !reason.empty()) {
    report.warnings.push_back(
        fmt::format("experts are dequantised while loading, so they take as much memory as "
                    "unquantised weights: {}",
                    reason));
  }
  append_warnings(report.warnings, warnings_of_invariance(args, device, *weights.parameters));
  settle_activations(options.config.quantization, *device.execution, *weights.parameters, report);
  packed.keep(*weights.parameters);
  report.weight_bytes = weights.parameters->total_bytes();
  report.weights_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return weights;
}

std::unique_ptr<lora::AdapterRegistry> load_adapters(const EngineArgs& args,
                                                     const ResolvedOptions& options,
                                                     lora::AdapterSlots& slots) {
  if (slots.layers().empty()) {
    throw InvalidArgument(fmt::format("--enable-lora: no projection of {} can take adapters",
                                      weights::architecture_name(options.config.architecture)));
  }
  auto adapters =
      std::make_unique<lora::AdapterRegistry>(slots, args.max_cpu_loras.value_or(args.max_loras));
  for (const LoraModulePath& module : args.lora_modules) {
    adapters->load(
        {.name = module.name, .path = module.path, .base_model_name = module.base_model_name});
  }
  return adapters;
}

}  // namespace reprise::api
