#include "reprise/api/graphs/graph_changes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "reprise/api/graphs/graph_microscope.h"
#include "reprise/api/loading/engine_runner.h"
#include "reprise/api/loading/graph_trust.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/cudagraph/graph_key.h"
#include "reprise/engine/engine_core.h"
#include "reprise/runner/graph_profiler.h"
#include "reprise/runner/memory_roof.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {
namespace {

using cudagraph::KeyState;
using cudagraph::KeyStatus;
using cudagraph::PlannedKey;

constexpr std::string_view kDraftPrefix = "draft:";

std::string utc_now() {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string name_of(const LoadedEngine& main, const LoadedEngine& model, const PlannedKey& key) {
  return (&main == &model ? "" : std::string(kDraftPrefix)) +
         cudagraph::graph_key_text(key.mode, key.descriptor);
}

/// Sets the fields that a request gave. All other fields of the configuration stay.
void set_fields(const Json& given, config::CompilationConfig& config) {
  Json values = Json::object();
  for (const auto& [name, value] : given.items()) {
    if (!value.is_null()) values[name] = value;
  }
  const config::CompilationConfig parsed = config::parse_compilation_config(values).config;
  if (given.contains("cudagraph_mode")) config.cudagraph_mode = parsed.cudagraph_mode;
  if (given.contains("cudagraph_capture_sizes")) {
    config.cudagraph_capture_sizes = parsed.cudagraph_capture_sizes;
    // ATOM's older key for the same list must not contradict the new sizes.
    config.cuda_graph_sizes = parsed.cuda_graph_sizes;
  }
  if (given.contains("max_cudagraph_capture_size")) {
    config.max_cudagraph_capture_size = parsed.max_cudagraph_capture_size;
  }
}

/// The fields of a request that apply to this model: the sizes of the main model do not fit a draft
/// model.
Json fields_for(const LoadedEngine& model, bool is_main, const Json& given) {
  Json fields = Json::object();
  const bool takes_sizes = is_main || model.options->draft_head.has_value();
  for (const auto& [name, value] : given.items()) {
    if (takes_sizes || name == "cudagraph_mode") fields[name] = value;
  }
  return fields;
}

/// Keeps the new configuration, so that later reports and descriptions of the engine show it.
void remember_fields(const Json& given, EngineArgs& args) {
  Json& config = args.compilation_config;
  if (given.contains("cudagraph_mode")) {
    for (const char* older : {"use_cudagraph", "full_cuda_graph", "separate_attention_routine"}) {
      config.erase(older);
    }
  }
  if (given.contains("cudagraph_capture_sizes")) config.erase("cuda_graph_sizes");
  for (const auto& [name, value] : given.items()) {
    config.erase(name);
    if (!value.is_null()) config[name] = value;
  }
}

Json key_json(const LoadedEngine& main, const LoadedEngine& model, const KeyStatus& status) {
  Json json = {{"key", name_of(main, model, status.key)}, {"state", to_string(status.state)}};
  if (!status.reason.empty()) json["reason"] = status.reason;
  if (status.state != KeyState::quarantined) return json;
  for (const runner::QuarantinedKey& key : model.runner->shadow()->keys()) {
    if (key.mode != status.key.mode || key.descriptor != status.key.descriptor) continue;
    if (!key.difference.empty()) json["difference"] = key.difference;
    if (!key.wrong_node.empty()) json["first_wrong_node"] = key.wrong_node;
    if (!key.report.empty()) json["report"] = key.report.string();
  }
  return json;
}

}  // namespace

/// The change of one model.
struct GraphChanges::Part {
  LoadedEngine* model = nullptr;
  ResolvedOptions options;
  std::vector<PlannedKey> quarantine;
  std::vector<PlannedKey> release;
};

/// The last change.
struct GraphChanges::Progress {
  uint64_t number = 0;
  double budget_ms = kDefaultCaptureBudgetMs;
  size_t num_given_back = 0;
  size_t num_planned = 0;  // captures that it needs
  size_t num_captured = 0;
  std::vector<std::string> failures;
  uint64_t num_steps = 0;  // number of steps between which it captured graphs
  double capture_ms = 0;
  double longest_capture_ms = 0;
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
  bool is_done = false;
};

GraphChanges::GraphChanges(LoadedEngine& engine) : engine_(&engine), since_(utc_now()) {
  for (LoadedEngine* model : models()) {
    for (const cudagraph::CaptureRecord& record : model->report.capture.records) add_cost(record);
  }
  publish();
}

void GraphChanges::add_cost(const cudagraph::CaptureRecord& record) {
  if (!record.failure.empty()) return;
  Cost& cost = costs_.at(static_cast<size_t>(record.mode));
  cost.ms += record.seconds * 1000;
  ++cost.num_captures;
}

GraphChanges::~GraphChanges() = default;

std::vector<LoadedEngine*> GraphChanges::models() const {
  std::vector<LoadedEngine*> models = {engine_};
  if (engine_->draft) models.push_back(engine_->draft.get());
  return models;
}

void GraphChanges::note(const std::string& line) const {
  if (engine_->args.note_line) engine_->args.note_line(line);
}

void GraphChanges::check_possible(const GraphChange& change) const {
  const EngineArgs& args = engine_->args;
  if (args.ranks_per_engine() > 1 || args.data_parallel_size > 1) {
    throw InvalidArgument(
        "graphs: an engine with several ranks or replicas (--tensor-parallel-size, "
        "--pipeline-parallel-size, --data-parallel-size) cannot change its graphs while it runs, "
        "because all of them would have to change in the same step; restart with the new options");
  }
  if (engine_->sleeping().any()) {
    throw GraphsBusyError("graphs: the engine sleeps; wake it up first (POST /wake_up)");
  }
  if (is_capturing() && !change.only_quarantines()) {
    throw GraphsBusyError(
        fmt::format("graphs: change {} still captures ({} of {} graphs are done); try again when "
                    "GET /v1/graphs says that it is done",
                    last_->number,
                    last_->num_captured + last_->failures.size(),
                    last_->num_planned));
  }
  const bool is_measured = engine_->options->graph_inputs.compilation.capture_size_rule ==
                           cudagraph::CaptureSizeRule::measured;
  if (is_measured && !change.compilation.empty()) {
    throw InvalidArgument(
        "graphs: with capture_size_rule measured, mode and sizes cannot change while the engine "
        "runs, because graphs are timed before the caches get their memory; restart with the new "
        "options, or choose another rule");
  }
  if (args.strict_graphs && !change.quarantine.empty()) {
    throw InvalidArgument(
        "quarantine: with --strict-graphs each request of this graph would be an error; leave "
        "--strict-graphs out to let such steps run eagerly");
  }
}

ResolvedOptions GraphChanges::resolve(const LoadedEngine& model, const GraphChange& change) {
  ResolvedOptions options = *model.options;
  config::CompilationConfig& asked = options.graph_inputs.compilation;
  set_fields(change.compilation, asked);
  // The programs were compiled for these sizes at the start. They stay, whatever sizes are
  // captured.
  if (asked.compile_sizes) asked.compile_sizes = {.sizes = options.graphs.compile_sizes};
  options.graphs = config::resolve(options.graph_inputs);
  options.warnings = options.graphs.warnings;
  EngineArgs args = model.args;
  if (change.shadow_check_rate) args.shadow_check_rate = *change.shadow_check_rate;
  check_graph_trust(args, options);
  return options;
}

std::vector<GraphChanges::Part> GraphChanges::plan(const GraphChange& change) const {
  std::vector<Part> parts;
  const auto read = [&](const std::vector<std::string>& names,
                        bool of_draft,
                        std::span<const PlannedKey> keys,
                        std::vector<PlannedKey>& found) {
    for (const std::string& name : names) {
      const bool is_draft = name.starts_with(kDraftPrefix);
      if (is_draft && !engine_->draft) {
        throw InvalidArgument(fmt::format("'{}': this engine has no draft model", name));
      }
      if (is_draft != of_draft) continue;
      found.push_back(cudagraph::find_graph_key(
          std::string_view(name).substr(is_draft ? kDraftPrefix.size() : 0), keys));
    }
  };
  for (LoadedEngine* model : models()) {
    const bool is_main = model == engine_;
    GraphChange own = change;
    own.compilation = fields_for(*model, is_main, change.compilation);
    Part& part = parts.emplace_back();
    part.model = model;
    part.options = resolve(*model, own);
    cudagraph::CudagraphDispatcher planner;
    planner.initialize_cudagraph_keys(
        config::dispatcher_options(part.options.graph_inputs, part.options.graphs));
    std::vector<PlannedKey> keys;
    for (const KeyStatus& status : planner.key_states()) keys.push_back(status.key);
    read(change.quarantine, !is_main, keys, part.quarantine);
    read(change.release, !is_main, keys, part.release);
  }
  return parts;
}

size_t GraphChanges::apply(Part& part, const GraphChange& change) {
  LoadedEngine& model = *part.model;
  EngineArgs& args = model.args;
  remember_fields(fields_for(model, &model == engine_, change.compilation), args);
  if (change.shadow_check_rate) args.shadow_check_rate = *change.shadow_check_rate;
  if (change.verify_graphs) args.verify_graphs = to_string(*change.verify_graphs);
  model.options->graph_inputs = part.options.graph_inputs;
  model.options->graphs = part.options.graphs;
  runner::ModelRunner& runner = *model.runner;
  size_t num_given_back = runner.change_graphs(graph_settings(model));
  for (const PlannedKey& key : part.quarantine) {
    const bool had_graph = runner.dispatcher().is_captured(key.mode, key.descriptor);
    if (runner.quarantine_key(key) && had_graph) ++num_given_back;
  }
  for (const PlannedKey& key : part.release) (void)runner.release_key(key);
  return num_given_back;
}

Json GraphChanges::begin(const GraphChange& change) {
  const auto refused = [&](const std::exception& error) {
    last_refusal_ = fmt::format("{}: {}", utc_now(), error.what());
    note(fmt::format("graphs: change refused: {}", error.what()));
    const std::lock_guard lock(mutex_);
    ++stats_.num_refused;
  };
  std::vector<Part> parts;
  try {
    check_possible(change);
    parts = plan(change);
  } catch (const Error& error) {
    refused(error);
    throw;
  }
  // A change that only quarantines a key does not end the earlier change that still captures.
  const bool continues = is_capturing();
  auto progress = continues ? std::move(last_) : std::make_unique<Progress>();
  if (!continues) {
    progress->budget_ms = change.capture_budget_ms;
    credit_ms_ = 0;
    progress->bytes_before = stats().graph_bytes;
  }
  progress->number = stats().num_changes + 1;
  last_ = std::move(progress);
  std::vector<std::string> warnings;
  for (Part& part : parts) {
    last_->num_given_back += apply(part, change);
    append_warnings(warnings, part.options.warnings);
  }
  engine_->core->set_pad_drafts(cudagraph::separate_routine(engine_->options->graphs.mode));
  since_ = utc_now();
  Json answer = {{"change", last_->number},
                 {"cudagraph_mode", to_string(engine_->options->graphs.mode)},
                 {"given_back", last_->num_given_back},
                 {"captures", predict_captures()},
                 {"warnings", warnings}};
  last_->num_planned =
      last_->num_captured + last_->failures.size() + answer["captures"]["graphs"].get<size_t>();
  {
    const std::lock_guard lock(mutex_);
    ++stats_.num_changes;
  }
  publish();
  note(
      fmt::format("graphs: change {} began: cudagraph_mode {}, {} graphs given back, {} to capture",
                  last_->number,
                  to_string(engine_->options->graphs.mode),
                  last_->num_given_back,
                  last_->num_planned));
  for (const std::string& warning : warnings) note("graphs: " + warning);
  // In strict mode a step without its graph is an error, so there must be no time between the old
  // plan and the new one.
  while (engine_->args.strict_graphs && is_capturing()) (void)capture_one();
  if (!is_capturing() && !last_->is_done) finish();
  answer["state"] = last_->is_done ? "done" : "capturing";
  return answer;
}

bool GraphChanges::is_capturing() const {
  return last_ != nullptr && !last_->is_done && std::ranges::any_of(models(), [](auto* model) {
           return model->runner->dispatcher().next_planned().has_value() &&
                  !model->options->graph_inputs.compilation.cudagraph_lazy_capture;
         });
}

bool GraphChanges::is_due(bool is_idle) {
  if (is_idle) {
    credit_ms_ = 0;
    return true;
  }
  credit_ms_ += last_->budget_ms;
  return credit_ms_ > 0;
}

bool GraphChanges::capture_one() {
  for (LoadedEngine* model : models()) {
    const std::optional<cudagraph::CaptureRecord> record = model->runner->capture_next();
    if (!record) continue;
    const double ms = record->seconds * 1000;
    credit_ms_ -= ms;
    ++last_->num_steps;
    last_->capture_ms += ms;
    last_->longest_capture_ms = std::max(last_->longest_capture_ms, ms);
    if (record->failure.empty()) {
      ++last_->num_captured;
    } else {
      last_->failures.push_back(
          fmt::format("{}: {}",
                      name_of(*engine_, *model, {record->mode, record->descriptor}),
                      record->failure));
    }
    add_cost(*record);
    publish(&*record);
    break;
  }
  if (is_capturing()) return true;
  finish();
  return false;
}

void GraphChanges::finish() {
  last_->is_done = true;
  last_->bytes_after = stats().graph_bytes;
  note(fmt::format(
      "graphs: change {} done: {} graphs captured in {:.1f} ms between {} steps, the "
      "longest in {:.1f} ms{}",
      last_->number,
      last_->num_captured,
      last_->capture_ms,
      last_->num_steps,
      last_->longest_capture_ms,
      last_->failures.empty() ? ""
                              : fmt::format("; retired: {}", fmt::join(last_->failures, "; "))));
}

/// The mean cost of the captures of the same runtime mode, at the start and since then. Without any
/// such capture the cost is unknown.
Json GraphChanges::predict_captures() const {
  size_t num_graphs = 0;
  std::optional<double> ms = 0;
  Json names = Json::array();
  for (LoadedEngine* model : models()) {
    if (model->options->graph_inputs.compilation.cudagraph_lazy_capture) continue;
    for (const KeyStatus& status : model->runner->dispatcher().key_states()) {
      if (status.state != KeyState::planned) continue;
      ++num_graphs;
      names.push_back(name_of(*engine_, *model, status.key));
      const Cost& cost = costs_.at(static_cast<size_t>(status.key.mode));
      if (cost.num_captures == 0) ms.reset();
      if (ms) *ms += cost.ms / static_cast<double>(cost.num_captures);
    }
  }
  return {{"graphs", num_graphs},
          {"predicted_ms", ms ? Json(*ms) : Json(nullptr)},
          {"budget_ms_per_step", last_->budget_ms},
          {"keys", std::move(names)}};
}

Json GraphChanges::profile(std::string_view name) {
  require_profilable(*engine_);
  if (engine_->sleeping().any()) {
    throw GraphsBusyError("graphs: the engine sleeps; wake it up first (POST /wake_up)");
  }
  if (is_capturing()) {
    throw GraphsBusyError("graphs: a change still captures; try again when it is done");
  }
  runner::ModelRunner& runner = *engine_->runner;
  std::vector<PlannedKey> keys;
  for (const KeyStatus& status : runner.dispatcher().key_states()) {
    if (status.state == KeyState::captured) keys.push_back(status.key);
  }
  const PlannedKey key = cudagraph::find_graph_key(name, keys);
  const std::string failure = runner.note_nodes(key);
  publish();
  if (!failure.empty()) throw Error(fmt::format("graphs: {}: {}", name, failure));
  if (!memory_gb_s_) memory_gb_s_ = runner::measure_memory_bandwidth(runner.execution());
  runner::GraphProfiler profiler(runner, {.num_positions = engine_->options->max_model_len});
  runner::GraphProfile profile = profiler.profile(key.mode, key.descriptor);
  profile.engine = describe_for_profile(*engine_);
  profile.memory_gb_s = *memory_gb_s_;
  // The states of new requests begin with zeros.
  const device::BufferView states = runner.states().memory();
  if (states.bytes > 0) runner.execution().stream().fill(states.data, std::byte{0}, states.bytes);
  return to_json(profile);
}

Json GraphChanges::state() const {
  const ResolvedOptions& options = *engine_->options;
  const EngineArgs& args = engine_->args;
  Json keys = Json::array();
  for (LoadedEngine* model : models()) {
    for (const KeyStatus& status : model->runner->dispatcher().key_states()) {
      keys.push_back(key_json(*engine_, *model, status));
    }
  }
  Json last = nullptr;
  if (last_) {
    last = {{"change", last_->number},
            {"state", last_->is_done ? "done" : "capturing"},
            {"given_back", last_->num_given_back},
            {"to_capture", last_->num_planned},
            {"captured", last_->num_captured},
            {"failed", last_->failures},
            {"capture_ms", last_->capture_ms},
            {"longest_capture_ms", last_->longest_capture_ms},
            {"between_steps", last_->num_steps},
            {"budget_ms_per_step", last_->budget_ms},
            {"graph_bytes_before", last_->bytes_before}};
    if (last_->is_done) last["graph_bytes_after"] = last_->bytes_after;
  }
  const GraphChangeStats counts = stats();
  return {{"cudagraph_mode", to_string(options.graphs.mode)},
          {"requested_cudagraph_mode",
           options.graphs.requested ? Json(to_string(*options.graphs.requested)) : Json(nullptr)},
          {"compilation_level", config::to_string(options.graphs.compilation_mode)},
          {"cudagraph_capture_sizes", options.graphs.capture_sizes.mixed},
          {"decode_capture_sizes", options.graphs.capture_sizes.decode},
          {"verify_graphs", args.verify_graphs},
          {"shadow_check_rate", args.shadow_check_rate},
          {"strict_graphs", args.strict_graphs},
          {"since", since_},
          {"changes", counts.num_changes},
          {"refused", counts.num_refused},
          {"last_refusal", last_refusal_.empty() ? Json(nullptr) : Json(last_refusal_)},
          {"last_change", std::move(last)},
          {"graph_bytes", counts.graph_bytes},
          {"keys", std::move(keys)}};
}

GraphChangeStats GraphChanges::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void GraphChanges::publish(const cudagraph::CaptureRecord* captured) {
  GraphChangeStats now;
  now.mode = engine_->options->graphs.mode;
  now.verify_graphs = engine_->runner->verify_level();
  now.shadow_check_rate = engine_->args.shadow_check_rate;
  for (LoadedEngine* model : models()) {
    now.graph_bytes += model->runner->graph_bytes();
    for (const KeyStatus& status : model->runner->dispatcher().key_states()) {
      ++now.num_keys.at(static_cast<size_t>(status.state));
      if (model == engine_ && status.state == KeyState::captured) {
        ++now.num_captured.at(static_cast<size_t>(status.key.mode));
      }
    }
  }
  // The draft model's graphs use the same pool.
  now.graph_bytes += engine_->runner->execution().graph_pool().reserved_bytes();
  const std::lock_guard lock(mutex_);
  now.num_changes = stats_.num_changes;
  now.num_refused = stats_.num_refused;
  now.num_captures = stats_.num_captures;
  now.num_failed_captures = stats_.num_failed_captures;
  now.capture_seconds = stats_.capture_seconds;
  if (captured != nullptr) {
    ++(captured->failure.empty() ? now.num_captures : now.num_failed_captures);
    now.capture_seconds += captured->seconds;
  }
  stats_ = now;
}

}  // namespace reprise::api
