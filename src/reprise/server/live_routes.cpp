#include "reprise/server/live_routes.h"

#include <chrono>

namespace reprise::server {
namespace {

Json to_json(const api::StepRecord& step) {
  const bool is_eager = step.mode == cudagraph::CudagraphRuntimeMode::NONE;
  return {{"index", step.index},
          {"mode", to_string(step.mode)},
          {"descriptor", is_eager ? "" : to_string(step.descriptor)},
          {"reason", name(step.reason)},
          {"reason_text", to_string(step.reason)},
          {"num_tokens", step.num_tokens},
          {"num_reqs", step.num_reqs},
          {"seconds", step.seconds}};
}

/// The graphs that may no longer be replayed, because a replay gave wrong results.
Json quarantined_json(const api::EngineStats& stats) {
  Json all = Json::array();
  for (const api::ShadowStats* shadow : {&stats.shadow, &stats.draft_shadow}) {
    for (const api::ShadowStats::Quarantined& key : shadow->quarantined) {
      all.push_back({{"model", shadow == &stats.shadow ? "main" : "draft"},
                     {"runtime_mode", to_string(key.mode)},
                     {"descriptor", to_string(key.descriptor)},
                     {"difference", key.difference},
                     {"first_wrong_node", key.wrong_node}});
    }
  }
  return all;
}

}  // namespace

Json live_json(const api::EngineStats& stats, std::string_view model, double seconds) {
  Json steps = Json::array();
  const uint64_t first =
      stats.num_steps > api::kNumStepRecords ? stats.num_steps - api::kNumStepRecords + 1 : 1;
  for (uint64_t index = first; index <= stats.num_steps; ++index) {
    const api::StepRecord& step = stats.recent_steps[index % api::kNumStepRecords];
    if (step.index == index) steps.push_back(to_json(step));
  }
  return {{"model", model},
          {"seconds", seconds},
          {"is_dead", stats.is_dead},
          {"running", stats.num_requests_running},
          {"waiting", stats.num_requests_waiting},
          {"kv_cache_usage", stats.kv_cache_usage},
          {"prompt_tokens", stats.prompt_tokens},
          {"generation_tokens", stats.generation_tokens},
          {"padding_tokens", stats.padding_tokens},
          {"steps", stats.num_steps},
          {"steps_by_mode",
           {{"FULL", stats.steps_full},
            {"PIECEWISE", stats.steps_piecewise},
            {"NONE", stats.steps_eager}}},
          {"shadow_checks", stats.shadow.num_checks + stats.draft_shadow.num_checks},
          {"quarantined", quarantined_json(stats)},
          {"recent_steps", std::move(steps)}};
}

void add_live_routes(Router& router,
                     const api::AsyncEngine& engine,
                     const ServedModel& model,
                     GraphsPage graphs_page) {
  router.add(
      {.method = "GET",
       .path = "/live",
       .access = Access::open,
       .summary = "What the engine does now and what its last steps replayed.",
       .handle = [&engine, &model, graphs_page](const HttpRequest&, const ExchangeRef& exchange) {
         const auto now = std::chrono::steady_clock::now().time_since_epoch();
         Json live =
             live_json(engine.stats(), model.name(), std::chrono::duration<double>(now).count());
         live["has_graphs_page"] = graphs_page == GraphsPage::served;
         exchange->respond({.body = dump(live), .headers = {{"Cache-Control", "no-store"}}});
       }});
}

}  // namespace reprise::server
