#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "reprise/api/async_engine.h"
#include "reprise/api/pooled_values.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/python/bindings.h"
#include "reprise/python/output_queue.h"
#include "reprise/structured_output/constraint_source.h"
#include "reprise/structured_output/grammar_compiler.h"
#include "reprise/tokenizer/tokenizer.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// Python's reference to a queue. It does not hold a shared_ptr, because the engine's thread often
/// drops a queue's last reference and must not need the GIL for that.
struct QueueHandle {
  std::shared_ptr<OutputQueue> queue = std::make_shared<OutputQueue>();
};

/// Python's reference to the compiled constraint of an answer.
struct OutputConstraint {
  std::shared_ptr<const structured_output::ConstraintSource> source;
  std::shared_ptr<const structured_output::CompiledSpec> compiled;
};

/// An AsyncEngine that several Python objects share; any of them may shut it down. Functions that
/// may wait release the GIL.
class Engine {
 public:
  Engine(const api::EngineArgs& args, std::optional<nb::callable> on_progress) {
    api::StartupObserver observer;
    if (on_progress) {
      observer.on_capture = [&](const cudagraph::CaptureRecord&, size_t done, size_t total) {
        const nb::gil_scoped_acquire gil;
        (*on_progress)("Capturing graphs", done, total);
      };
    }
    const nb::gil_scoped_release no_gil;
    engine_ = std::make_unique<api::AsyncEngine>(args, observer);
  }

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { shutdown(); }

  uint64_t submit(std::vector<int32_t> prompt_token_ids,
                  const sampling::SamplingParams& params,
                  const QueueHandle& handle,
                  int priority,
                  std::string cache_salt,
                  const OutputConstraint* constraint,
                  const std::string& lora_name,
                  const std::string& lora_path,
                  std::optional<int32_t> second_text_begin) {
    const nb::gil_scoped_release no_gil;
    scheduler::RequestOptions options{
        .priority = priority,
        .cache_salt = std::move(cache_salt),
        .second_text_begin = second_text_begin.value_or(scheduler::kNoSecondText)};
    if (constraint != nullptr) {
      options.constraint =
          structured_output::start_constraint(*constraint->source, *constraint->compiled);
      options.constraint_source = constraint->source;
    }
    if (!lora_name.empty()) {
      load_adapter(lora_name, lora_path);
      options = engine().with_adapter(lora_name, std::move(options));
    }
    const auto id = engine().submit(
        std::move(prompt_token_ids),
        params,
        [queue = handle.queue](engine::OutputDelta&& delta) { queue->put(std::move(delta)); },
        std::move(options));
    return static_cast<uint64_t>(id);
  }

  /// `kind`: a name of OutputSpec::Kind. The kind "choice" uses `choices`, every other kind uses
  /// the text.
  [[nodiscard]] OutputConstraint compile_constraint(const std::string& kind,
                                                    std::string text,
                                                    std::vector<std::string> choices,
                                                    bool any_whitespace) const {
    using structured_output::OutputSpec;
    const nb::gil_scoped_release no_gil;
    for (const auto of : {OutputSpec::Kind::json_object,
                          OutputSpec::Kind::json_schema,
                          OutputSpec::Kind::regex,
                          OutputSpec::Kind::choice,
                          OutputSpec::Kind::grammar,
                          OutputSpec::Kind::structural_tag}) {
      if (to_string(of) != kind) continue;
      auto source = std::make_shared<const structured_output::ConstraintSource>(
          structured_output::ConstraintSource{.spec = {.kind = of,
                                                       .text = std::move(text),
                                                       .choices = std::move(choices),
                                                       .any_whitespace = any_whitespace},
                                              .reasoning = std::nullopt});
      return {.source = source, .compiled = engine().grammar_compiler().compile(source->spec)};
    }
    throw InvalidArgument("structured output of an unknown kind: " + kind);
  }

  [[nodiscard]] bool reset_prefix_cache() {
    const nb::gil_scoped_release no_gil;
    return engine().reset_prefix_cache();
  }

  [[nodiscard]] bool start_profile() {
    const nb::gil_scoped_release no_gil;
    return engine().start_profile();
  }

  [[nodiscard]] std::optional<std::string> stop_profile(const std::string& folder) {
    const nb::gil_scoped_release no_gil;
    const auto file = engine().stop_profile(folder);
    return file ? std::optional(file->string()) : std::nullopt;
  }

  void abort(uint64_t id) {
    const nb::gil_scoped_release no_gil;
    engine().abort(scheduler::RequestId{id});
  }

  void sleep(int level, const std::string& mode) {
    if (level < 0 || level > 2) {
      throw InvalidArgument("level: " + std::to_string(level) + " is not 0, 1 or 2");
    }
    if (mode != "abort" && mode != "wait") {
      throw InvalidArgument("mode: '" + mode + "' is not 'abort' or 'wait'");
    }
    const nb::gil_scoped_release no_gil;
    engine().sleep(static_cast<api::SleepLevel>(level),
                   mode == "wait" ? api::SleepMode::wait : api::SleepMode::abort);
  }

  void wake_up(const std::vector<std::string>& tags) {
    const nb::gil_scoped_release no_gil;
    engine().wake_up(api::parse_engine_parts(tags));
  }

  void shutdown() {
    const nb::gil_scoped_release no_gil;
    engine_.reset();
  }

  /// \throws InvalidArgument after shutdown()
  [[nodiscard]] api::AsyncEngine& engine() const {
    if (!engine_) throw InvalidArgument("the engine was shut down; make a new one");
    return *engine_;
  }

 private:
  /// Reads an adapter whose name the engine does not know yet.
  void load_adapter(const std::string& name, const std::string& path) const {
    lora::AdapterRegistry* adapters = engine().adapters();
    if (adapters == nullptr) {
      throw InvalidArgument("lora_request: this engine has no adapters; give it enable_lora=True");
    }
    if (!path.empty() && !adapters->contains(name)) adapters->load({.name = name, .path = path});
  }

  std::unique_ptr<api::AsyncEngine> engine_;
};

std::vector<int32_t> encode(const Engine& engine,
                            const std::string& text,
                            bool add_special_tokens) {
  const nb::gil_scoped_release no_gil;
  return engine.engine().tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
}

/// The tokens of two texts as the model reads them together, and where the second text begins, if
/// the model needs to know.
std::pair<std::vector<int32_t>, std::optional<int32_t>> encode_pair(const Engine& engine,
                                                                    const std::string& first,
                                                                    const std::string& second) {
  const nb::gil_scoped_release no_gil;
  api::EncodedTexts texts = api::encode_texts(engine.engine(), first, second);
  return {std::move(texts.token_ids), texts.second_begin};
}

std::vector<float> pooled_values(const Engine& engine,
                                 std::vector<float> numbers,
                                 std::optional<size_t> dimensions,
                                 bool is_activated) {
  const api::StartupReport& report = engine.engine().startup_report();
  return api::pooled_values(std::move(numbers),
                            report.classifier ? &*report.classifier : nullptr,
                            dimensions,
                            is_activated);
}

std::string decode(const Engine& engine,
                   const std::vector<int32_t>& ids,
                   bool skip_special_tokens) {
  return engine.engine().tokenizer().decode(ids, skip_special_tokens);
}

/// The prompt of a conversation, and its tokens. Text in a message never becomes a control token.
std::pair<std::string, std::vector<int32_t>> render_chat(const Engine& engine,
                                                         const std::string& messages,
                                                         const std::string& options) {
  const nb::gil_scoped_release no_gil;
  const Json given = parse_json(options, "options of the chat template");
  api::ChatTemplateOptions wanted;
  wanted.add_generation_prompt = given.value("add_generation_prompt", true);
  wanted.continue_final_message = given.value("continue_final_message", false);
  if (given.contains("tools")) wanted.tools = given["tools"];
  if (given.contains("documents")) wanted.documents = given["documents"];
  if (given.contains("chat_template"))
    wanted.chat_template = given["chat_template"].get<std::string>();
  if (given.contains("content_format")) {
    wanted.content_format = api::parse_content_format("chat_template_content_format",
                                                      given["content_format"].get<std::string>());
  }
  wanted.kwargs = given.value("kwargs", Json::object());
  const api::ChatPrompt prompt =
      engine.engine().render_chat(parse_json(messages, "messages"), wanted);
  return {prompt.text,
          engine.engine().tokenizer().encode(
              prompt.text, {.add_special_tokens = false, .plain_at = prompt.plain_at})};
}

nb::dict histogram(const Histogram& from) {
  nb::dict result;
  result["bounds"] = std::vector<double>(from.bounds().begin(), from.bounds().end());
  result["counts"] = std::vector<uint64_t>(from.counts().begin(), from.counts().end());
  result["count"] = from.count();
  result["sum"] = from.sum();
  return result;
}

/// Histograms of finished requests, by name.
nb::dict histograms(const Engine& engine) {
  const api::EngineStats now = engine.engine().stats();
  const api::RequestHistograms& requests = now.requests;
  nb::dict result;
  result["iteration_tokens_total"] = histogram(now.tokens_per_step);
  result["time_to_first_token_seconds"] = histogram(requests.time_to_first_token);
  result["inter_token_latency_seconds"] = histogram(requests.inter_token_latency);
  result["request_time_per_output_token_seconds"] = histogram(requests.time_per_output_token);
  result["e2e_request_latency_seconds"] = histogram(requests.e2e_latency);
  result["request_queue_time_seconds"] = histogram(requests.queue_time);
  result["request_prefill_time_seconds"] = histogram(requests.prefill_time);
  result["request_decode_time_seconds"] = histogram(requests.decode_time);
  result["request_inference_time_seconds"] = histogram(requests.inference_time);
  result["request_prompt_tokens"] = histogram(requests.prompt_tokens);
  result["request_generation_tokens"] = histogram(requests.generation_tokens);
  return result;
}

nb::dict stats(const Engine& engine) {
  const api::EngineStats now = engine.engine().stats();
  nb::dict result;
  result["num_requests_running"] = now.num_requests_running;
  result["num_requests_waiting"] = now.num_requests_waiting;
  result["kv_cache_usage"] = now.kv_cache_usage;
  result["prompt_tokens"] = now.prompt_tokens;
  result["generation_tokens"] = now.generation_tokens;
  result["prompt_tokens_cached"] = now.prompt_tokens_cached;
  result["prefix_cache_queries"] = now.prefix_cache_queries;
  result["prefix_cache_hits"] = now.prefix_cache_hits;
  result["states_restored"] = now.states_restored;
  result["num_preemptions"] = now.num_preemptions;
  result["finished_stop"] = now.num_finished_stop;
  result["finished_length"] = now.num_finished_length;
  result["finished_abort"] = now.num_finished_abort;
  result["finished_error"] = now.num_finished_error;
  result["num_steps"] = now.num_steps;
  result["steps_full"] = now.steps_full;
  result["steps_piecewise"] = now.steps_piecewise;
  result["steps_eager"] = now.steps_eager;
  result["is_dead"] = now.is_dead;
  return result;
}

nb::dict startup_report(const Engine& engine) {
  const api::StartupReport& report = engine.engine().startup_report();
  nb::dict result;
  result["device"] = report.device;
  result["cpu_isa"] = report.cpu_isa;
  result["dtype"] = report.dtype;
  result["num_parameters"] = report.num_parameters;
  result["weight_bytes"] = report.weight_bytes;
  result["num_kv_blocks"] = report.num_kv_blocks;
  result["kv_block_size"] = report.kv_block_size;
  result["max_model_len"] = report.max_model_len;
  result["cudagraph_mode"] = std::string(to_string(report.resolved.mode));
  result["tokenizer_seconds"] = report.tokenizer_seconds;
  result["weights_seconds"] = report.weights_seconds;
  result["compile_seconds"] = report.compile_seconds;
  result["total_seconds"] = report.total_seconds;
  result["graph_bytes"] = report.graph_bytes;
  result["warnings"] = report.warnings;
  result["makes_vectors"] = report.pooling.has_value() || report.classifier.has_value();
  result["normalizes"] = report.classifier || (report.pooling && report.pooling->normalizes);
  result["labels"] = report.classifier ? report.classifier->labels : std::vector<std::string>();
  result["vector_lengths"] =
      report.matryoshka ? report.matryoshka->lengths : std::vector<int64_t>();
  result["longest_vector"] = report.matryoshka ? report.matryoshka->longest : 0;
  return result;
}

void bind_outputs(nb::module_& module) {
  nb::class_<sampling::TokenLogprob>(module, "TokenLogprob")
      .def_ro("token_id", &sampling::TokenLogprob::token_id)
      .def_ro("logprob", &sampling::TokenLogprob::logprob)
      .def_ro("rank", &sampling::TokenLogprob::rank);
  nb::class_<sampling::PositionLogprobs>(module, "PositionLogprobs")
      .def_ro("token", &sampling::PositionLogprobs::token)
      .def_ro("top", &sampling::PositionLogprobs::top);
  using engine::OutputDelta;
  nb::class_<OutputDelta>(module, "StepOutput", "The new output of one request in one step.")
      .def_prop_ro("request_id",
                   [](const OutputDelta& delta) { return static_cast<uint64_t>(delta.id); })
      .def_ro("text", &OutputDelta::text)
      .def_ro("token_ids", &OutputDelta::token_ids)
      .def_ro("logprobs", &OutputDelta::logprobs)
      .def_ro("prompt_logprobs", &OutputDelta::prompt_logprobs)
      .def_ro("finished", &OutputDelta::finished)
      .def_ro("finish_reason", &OutputDelta::finish_reason)
      .def_prop_ro(
          "stop_reason",
          [](const OutputDelta& output) -> nb::object {
            if (const auto* id = std::get_if<int32_t>(&output.stop_reason)) return nb::cast(*id);
            if (const auto* text = std::get_if<std::string>(&output.stop_reason))
              return nb::cast(*text);
            return nb::none();
          },
          nb::sig("def stop_reason(self) -> int | str | None"))
      .def_ro("pooled", &OutputDelta::pooled, "The numbers of a text, as the model gives them.")
      .def_ro("error", &OutputDelta::error);
  nb::class_<QueueHandle>(module, "OutputQueue")
      .def(nb::init<>())
      .def(
          "take",
          [](const QueueHandle& handle, int timeout_ms) {
            const nb::gil_scoped_release no_gil;
            return handle.queue->take(std::chrono::milliseconds(timeout_ms));
          },
          nb::arg("timeout_ms"),
          "The outputs that have arrived, in order; waits for the first one. Empty if none arrived "
          "in time.")
      .def(
          "fileno",
          [](const QueueHandle& handle) { return handle.queue->fileno(); },
          "Readable while there are outputs to take.");
}

void bind_texts(nb::class_<Engine>& texts) {
  texts.def("encode", &encode, nb::arg("text"), nb::arg("add_special_tokens") = true)
      .def("encode_pair",
           &encode_pair,
           nb::arg("first"),
           nb::arg("second"),
           "Tokens of two texts that a cross-encoder compares, and where the second begins.")
      .def("pooled_values",
           &pooled_values,
           nb::arg("numbers"),
           nb::arg("dimensions").none(),
           nb::arg("is_activated"),
           "What the server would answer: a vector of length 1, or probabilities of labels.")
      .def("decode", &decode, nb::arg("token_ids"), nb::arg("skip_special_tokens") = true)
      .def("render_chat",
           &render_chat,
           nb::arg("messages"),
           nb::arg("options"),
           "Text and tokens of messages, both arguments as JSON text.")
      .def("default_sampling_params",
           [](const Engine& engine) { return engine.engine().default_sampling_params(); })
      .def("eos_token_id",
           [](const Engine& engine) { return engine.engine().tokenizer().eos_id(); })
      .def("bos_token_id",
           [](const Engine& engine) { return engine.engine().tokenizer().bos_id(); })
      .def("vocab_size",
           [](const Engine& engine) { return engine.engine().tokenizer().vocab_size(); });
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_outputs(module);
  nb::class_<OutputConstraint>(
      module, "OutputConstraint", "A compiled specification of the form of answers.");
  nb::class_<Engine> all(module, "Engine");
  bind_texts(all);
  all.def(nb::init<const api::EngineArgs&, std::optional<nb::callable>>(),
          nb::arg("args"),
          nb::arg("on_progress").none() = nb::none(),
          "Loads, compiles and captures; calls on_progress(what, done, total).")
      .def("submit",
           &Engine::submit,
           nb::arg("prompt_token_ids"),
           nb::arg("params"),
           nb::arg("queue"),
           nb::arg("priority") = 0,
           nb::arg("cache_salt") = "",
           nb::arg("constraint").none() = nb::none(),
           nb::arg("lora_name") = "",
           nb::arg("lora_path") = "",
           nb::arg("second_text_begin").none() = nb::none(),
           "Outputs of the request that is named by the result go to the queue.")
      .def("abort", &Engine::abort, nb::arg("request_id"))
      .def("shutdown", &Engine::shutdown, "Aborts unfinished requests and frees the memory.")
      .def("sleep", &Engine::sleep, nb::arg("level"), nb::arg("mode"))
      .def("wake_up", &Engine::wake_up, nb::arg("tags"))
      .def("is_sleeping", [](const Engine& engine) { return engine.engine().is_sleeping(); })
      .def("compile_constraint",
           &Engine::compile_constraint,
           nb::arg("kind"),
           nb::arg("text") = "",
           nb::arg("choices") = std::vector<std::string>(),
           nb::arg("any_whitespace") = true,
           "Waits; raises ValueError for a form that cannot be enforced.")
      .def("reset_prefix_cache",
           &Engine::reset_prefix_cache,
           "False, and nothing happens, while a request runs.")
      .def("start_profile", &Engine::start_profile, "False if steps are already being recorded.")
      .def("stop_profile",
           &Engine::stop_profile,
           nb::arg("folder"),
           "Writes the recorded steps; returns the file, or None if nothing was recorded.")
      .def("stats", &stats)
      .def("histograms", &histograms)
      .def("startup_report", &startup_report);
}

}  // namespace reprise::python
