#pragma once

#include "reprise/server/http/router.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Adds /v1/models and /v1/models/{model_id}. `model` must outlive `router`.
void add_model_routes(Router& router, const ServedModel& model);

}  // namespace reprise::server
