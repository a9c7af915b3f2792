#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "reprise/api/async_engine.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/python/bindings.h"
#include "reprise/python/output_queue.h"
#include "reprise/tokenizer/tokenizer.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// Python's hold on a queue. Not a shared_ptr known to Python: the engine's thread drops the last
/// reference to many a queue and must not need the GIL for it.
struct QueueHandle {
  std::shared_ptr<OutputQueue> queue = std::make_shared<OutputQueue>();
};

/// An AsyncEngine that Python may share and end. Everything that may wait gives the GIL up.
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
                  std::string cache_salt) {
    const nb::gil_scoped_release no_gil;
    const auto id = engine().submit(
        std::move(prompt_token_ids),
        params,
        [queue = handle.queue](const api::AsyncOutput& output) { queue->put(own(output)); },
        {.priority = priority, .cache_salt = std::move(cache_salt)});
    return static_cast<uint64_t>(id);
  }

  void abort(uint64_t id) {
    const nb::gil_scoped_release no_gil;
    engine().abort(api::AsyncRequestId{id});
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
  std::unique_ptr<api::AsyncEngine> engine_;
};

std::vector<int32_t> encode(const Engine& engine, const std::string& text, bool add_special_tokens) {
  const nb::gil_scoped_release no_gil;
  return engine.engine().tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
}

std::string decode(const Engine& engine, const std::vector<int32_t>& ids, bool skip_special_tokens) {
  return engine.engine().tokenizer().decode(ids, skip_special_tokens);
}

nb::dict stats(const Engine& engine) {
  const api::EngineStats now = engine.engine().stats();
  nb::dict result;
  result["num_requests_running"] = now.num_requests_running;
  result["num_requests_waiting"] = now.num_requests_waiting;
  result["kv_cache_usage"] = now.kv_cache_usage;
  result["prompt_tokens"] = now.prompt_tokens;
  result["generation_tokens"] = now.generation_tokens;
  result["num_preemptions"] = now.num_preemptions;
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
  result["cudagraph_mode"] = report.resolved.mode;
  result["tokenizer_seconds"] = report.tokenizer_seconds;
  result["weights_seconds"] = report.weights_seconds;
  result["compile_seconds"] = report.compile_seconds;
  result["total_seconds"] = report.total_seconds;
  result["graph_bytes"] = report.graph_bytes;
  result["warnings"] = report.warnings;
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
  nb::class_<StepOutput>(module, "StepOutput", "What one request gained in one step.")
      .def_ro("request_id", &StepOutput::request_id)
      .def_ro("text", &StepOutput::text)
      .def_ro("token_ids", &StepOutput::token_ids)
      .def_ro("logprobs", &StepOutput::logprobs)
      .def_ro("prompt_logprobs", &StepOutput::prompt_logprobs)
      .def_ro("finished", &StepOutput::finished)
      .def_ro("finish_reason", &StepOutput::finish_reason)
      .def_prop_ro("stop_reason",
                   [](const StepOutput& output) -> nb::object {
                     if (const auto* id = std::get_if<int32_t>(&output.stop_reason))
                       return nb::cast(*id);
                     if (const auto* text = std::get_if<std::string>(&output.stop_reason))
                       return nb::cast(*text);
                     return nb::none();
                   },
                   nb::sig("def stop_reason(self) -> int | str | None"))
      .def_ro("error", &StepOutput::error);
  nb::class_<QueueHandle>(module, "OutputQueue")
      .def(nb::init<>())
      .def("take",
           [](const QueueHandle& handle, int timeout_ms) {
             const nb::gil_scoped_release no_gil;
             return handle.queue->take(std::chrono::milliseconds(timeout_ms));
           },
           nb::arg("timeout_ms"),
           "What came, in order; waits for the first output. Empty when none came in time.")
      .def("fileno", [](const QueueHandle& handle) { return handle.queue->fileno(); },
           "Readable while there is something to take.");
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_outputs(module);
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const api::EngineArgs&, std::optional<nb::callable>>(),
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
           "Outputs of the request that is named by the result go to the queue.")
      .def("abort", &Engine::abort, nb::arg("request_id"))
      .def("shutdown", &Engine::shutdown, "Aborts what is unfinished and frees the memory.")
      .def("encode", &encode, nb::arg("text"), nb::arg("add_special_tokens") = true)
      .def("decode", &decode, nb::arg("token_ids"), nb::arg("skip_special_tokens") = true)
      .def("apply_chat_template",
           [](const Engine& engine, const std::string& messages) {
             return engine.engine().apply_chat_template(parse_json(messages, "messages"));
           },
           nb::arg("messages"),
           "Of messages as JSON text.")
      .def("default_sampling_params",
           [](const Engine& engine) { return engine.engine().default_sampling_params(); })
      .def("eos_token_id", [](const Engine& engine) { return engine.engine().tokenizer().eos_id(); })
      .def("bos_token_id", [](const Engine& engine) { return engine.engine().tokenizer().bos_id(); })
      .def("vocab_size", [](const Engine& engine) { return engine.engine().tokenizer().vocab_size(); })
      .def("stats", &stats)
      .def("startup_report", &startup_report);
}

}  // namespace reprise::python
