#include "reprise/server/lora_routes.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

Answering answer_text(std::string text, const RequestFields& fields) {
  return {[text = std::move(text)](const ExchangeRef& exchange) {
            exchange->respond({.body = text, .content_type = "text/plain; charset=utf-8"});
          },
          fields.unused()};
}

/// The status of a failed load: 404 if the folder or a file is missing, as in vLLM, else 400.
int status_of(const InvalidArgument& error) {
  const auto* file = dynamic_cast<const FileError*>(&error);
  return file != nullptr && file->code() == "E_MISSING" && file->field().empty() ? 404 : 400;
}

Answering load_adapter(const HttpRequest& request,
                       lora::AdapterRegistry& adapters,
                       const ServedModel& model,
                       const Log& log) {
  const Json json = parse_body(request.body);
  const RequestFields fields(json);
  const std::string name = fields.text("lora_name").value_or("");
  const std::string path = fields.text("lora_path").value_or("");
  if (name.empty() || path.empty()) {
    throw ApiError(400, "Both 'lora_name' and 'lora_path' must be provided.");
  }
  model.check_adapter_name(name);
  using IfLoaded = lora::AdapterRegistry::IfLoaded;
  const bool replaces = fields.boolean("load_inplace").value_or(false);
  try {
    adapters.load({.name = name, .path = path}, replaces ? IfLoaded::replace : IfLoaded::refuse);
  } catch (const InvalidArgument& error) {
    const bool is_file = dynamic_cast<const FileError*>(&error) != nullptr;
    throw ApiError(status_of(error), error.what(), is_file ? "lora_path" : "lora_name");
  }
  log.info(fmt::format("Loaded new LoRA adapter: name '{}', path '{}'", name, path));
  return answer_text(fmt::format("Success: LoRA adapter '{}' added successfully.", name), fields);
}

Answering unload_adapter(const HttpRequest& request,
                         lora::AdapterRegistry& adapters,
                         const Log& log) {
  const Json json = parse_body(request.body);
  const RequestFields fields(json);
  const std::string name = fields.text("lora_name").value_or("");
  if (name.empty()) {
    throw ApiError(400, "'lora_name' needs to be provided to unload a LoRA adapter.", "lora_name");
  }
  if (!adapters.unload(name)) {
    throw ApiError(404,
                   fmt::format("The lora adapter '{}' cannot be found.", name.substr(0, 256)),
                   "lora_name");
  }
  log.info(fmt::format("Removed LoRA adapter: name '{}'", name));
  return answer_text(fmt::format("Success: LoRA adapter '{}' removed successfully.", name), fields);
}

}  // namespace

void add_lora_routes(Router& router,
                     lora::AdapterRegistry& adapters,
                     const ServedModel& model,
                     const Log& log) {
  router.add({.method = "POST",
              .path = "/v1/load_lora_adapter",
              .body_schema = "LoadLoRAAdapterRequest",
              .answer_types = {"text/plain"},
              .summary = "Reads an adapter from a folder of the server; requests may then name it.",
              .prepare =
                  [&adapters, &model, &log](const HttpRequest& request) {
                    return load_adapter(request, adapters, model, log);
                  },
              .waits_for_engine = true});
  router.add({.method = "POST",
              .path = "/v1/unload_lora_adapter",
              .body_schema = "UnloadLoRAAdapterRequest",
              .answer_types = {"text/plain"},
              .summary = "Forgets an adapter; requests that run keep it.",
              .prepare =
                  [&adapters, &log](const HttpRequest& request) {
                    return unload_adapter(request, adapters, log);
                  },
              .waits_for_engine = true});
}

}  // namespace reprise::server
