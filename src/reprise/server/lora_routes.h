#pragma once

#include "reprise/base/log.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Adds vLLM's routes that change the adapters of a running server: /v1/load_lora_adapter and
/// /v1/unload_lora_adapter. They open folders of the server by request, so they exist only with
/// VLLM_ALLOW_RUNTIME_LORA_UPDATING. The borrowed arguments must outlive `router`.
void add_lora_routes(Router& router,
                     lora::AdapterRegistry& adapters,
                     const ServedModel& model,
                     const Log& log);

}  // namespace reprise::server
