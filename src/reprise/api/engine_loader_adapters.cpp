#include <fmt/format.h>

#include <memory>

#include "reprise/api/engine_device.h"
#include "reprise/api/engine_loader.h"
#include "reprise/api/loaded_engine.h"
#include "reprise/api/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/models/parameters.h"
#include "reprise/weights/model_config.h"

// The part of the engine loader that loads the adapters of --enable-lora.
namespace reprise::api {

void EngineLoader::reserve_adapters() {
  const EngineArgs& args = engine_->args;
  engine_->adapter_slots = std::make_unique<lora::AdapterSlots>(args.max_loras, args.max_lora_rank);
  engine_->adapter_slots->set_token_slots(engine_->parameters->add_buffer(
      "lora_token_slots", {DType::i32, {args.max_num_batched_tokens}}));
}

void EngineLoader::load_adapters() {
  const EngineArgs& args = engine_->args;
  if (engine_->adapter_slots->layers().empty()) {
    throw InvalidArgument(
        fmt::format("--enable-lora: no projection of {} can take adapters",
                    weights::architecture_name(engine_->options->config.architecture)));
  }
  engine_->adapters = std::make_unique<lora::AdapterRegistry>(
      *engine_->adapter_slots, args.max_cpu_loras.value_or(args.max_loras));
  for (const LoraModulePath& module : args.lora_modules) {
    engine_->adapters->load(
        {.name = module.name, .path = module.path, .base_model_name = module.base_model_name});
  }
}

}  // namespace reprise::api
