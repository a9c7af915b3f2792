#include "reprise/server/openai/openapi.h"

#include <algorithm>
#include <string>
#include <utility>

namespace reprise::server {
namespace {

constexpr const char* kErrorResponse = "#/components/responses/Error";

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

/// "POST /v1/chat/completions" becomes "post_v1_chat_completions".
std::string operation_id(const Route& route) {
  std::string id = lower(route.method);
  for (const char c : route.path) {
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (is_kept) {
      id += c;
    } else if (id.back() != '_') {
      id += '_';
    }
  }
  if (id.back() == '_') id.pop_back();
  return id;
}

Json parameters(const Route& route) {
  Json list = Json::array();
  const std::string_view fixed = route.fixed_part();
  if (fixed.size() < route.path.size()) {
    const std::string name =
        route.path.substr(fixed.size() + 1, route.path.size() - fixed.size() - 2);
    list.push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  for (const QueryParameter& parameter : route.query) {
    list.push_back({{"name", parameter.name},
                    {"in", "query"},
                    {"description", parameter.what},
                    {"schema", Json::parse(parameter.schema)}});
  }
  return list;
}

Json operation(const Route& route) {
  Json described = {
      {"summary", route.summary},
      {"operationId", operation_id(route)},
      {"responses",
       {{"200", {{"description", "The answer."}}}, {"default", {{"$ref", kErrorResponse}}}}}};
  Json& content = described["responses"]["200"]["content"];
  for (const std::string& type : route.answer_types) content[type] = {{"schema", Json::object()}};
  if (content.is_null()) described["responses"]["200"].erase("content");
  if (!route.body_schema.empty()) {
    described["requestBody"] = {
        {"required", true},
        {"content",
         {{"application/json",
           {{"schema", {{"$ref", "#/components/schemas/" + route.body_schema}}}}}}}};
  }
  const Json described_parameters = parameters(route);
  if (!described_parameters.empty()) described["parameters"] = described_parameters;
  if (route.access == Access::guarded) {
    // Only servers that have keys require one, so the entry also allows requests without a key.
    described["security"] = Json::array({{{"bearer", Json::array()}}, Json::object()});
  }
  return described;
}

}  // namespace

Json openapi_document(const Router& router, std::string_view version, const Json& schemas) {
  Json paths = Json::object();
  for (const Route& route : router.routes()) {
    if (route.is_described) paths[route.path][lower(route.method)] = operation(route);
  }
  return {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Reprise"}, {"version", version}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", schemas},
        {"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}},
        {"responses",
         {{"Error",
           {{"description", "Why not."},
            {"content",
             {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}}}}}};
}

void add_openapi_route(Router& router, std::string_view version, Json schemas) {
  router.add({.method = "GET",
              .path = "/openapi.json",
              .access = Access::open,
              .summary = "This description.",
              .handle = [&router, version = std::string(version), schemas = std::move(schemas)](
                            const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump(openapi_document(router, version, schemas))});
              }});
}

}  // namespace reprise::server
