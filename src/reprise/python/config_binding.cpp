#include "reprise/python/bindings.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/config/compilation_config.h"
#include "reprise/sampling/sampling_params.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

using EngineArgsClass = nb::class_<api::EngineArgs>;

void bind_model_choice(EngineArgsClass& arguments) {
  using api::EngineArgs;
  arguments.def(nb::init<>())
      .def_rw("model", &EngineArgs::model)
      .def_rw("download_dir", &EngineArgs::download_dir)
      .def_rw("revision", &EngineArgs::revision)
      .def_rw("runner", &EngineArgs::runner)
      .def_rw("extension", &EngineArgs::extension_files);
}

void bind_model_arguments(EngineArgsClass& arguments) {
  using api::EngineArgs;
  arguments.def_rw("tokenizer", &EngineArgs::tokenizer, nb::arg().none())
      .def_prop_rw(
          "load_format",
          [](const EngineArgs& args) {
            switch (args.load_format) {
              case api::LoadFormat::safetensors:
                return "safetensors";
              case api::LoadFormat::dummy:
                return "dummy";
              case api::LoadFormat::automatic:
                break;
            }
            return "auto";
          },
          [](EngineArgs& args, const std::string& text) {
            args.load_format = api::parse_load_format("load_format", text);
          })
      .def_prop_rw(
          "hf_overrides",
          [](const EngineArgs& args) { return args.hf_overrides.dump(); },
          [](EngineArgs& args, const std::string& json) {
            args.hf_overrides = parse_json(json, "hf_overrides");
          },
          "As JSON text.")
      .def_rw("generation_config", &EngineArgs::generation_config)
      .def_prop_rw(
          "override_generation_config",
          [](const EngineArgs& args) { return args.override_generation_config.dump(); },
          [](EngineArgs& args, const std::string& json) {
            args.override_generation_config = parse_json(json, "override_generation_config");
          },
          "As JSON text.")
      .def_rw("chat_template", &EngineArgs::chat_template, nb::arg().none())
      .def_prop_rw(
          "chat_template_content_format",
          [](const EngineArgs& args) {
            switch (args.chat_template_content_format) {
              case api::ContentFormat::string:
                return "string";
              case api::ContentFormat::openai:
                return "openai";
              case api::ContentFormat::automatic:
                break;
            }
            return "auto";
          },
          [](EngineArgs& args, const std::string& text) {
            args.chat_template_content_format =
                api::parse_content_format("chat_template_content_format", text);
          })
      .def_rw("device", &EngineArgs::device)
      .def_rw("gpu_memory_utilization", &EngineArgs::gpu_memory_utilization, nb::arg().none())
      .def_rw("quantization", &EngineArgs::quantization)
      .def_rw("dtype", &EngineArgs::dtype)
      .def_rw("seed", &EngineArgs::seed);
}

void bind_scheduler_arguments(EngineArgsClass& arguments) {
  using api::EngineArgs;
  arguments.def_rw("max_model_len", &EngineArgs::max_model_len, nb::arg().none())
      .def_rw("max_num_seqs", &EngineArgs::max_num_seqs)
      .def_rw("max_num_batched_tokens", &EngineArgs::max_num_batched_tokens)
      .def_rw("enable_chunked_prefill", &EngineArgs::enable_chunked_prefill)
      .def_rw("long_prefill_token_threshold", &EngineArgs::long_prefill_token_threshold)
      .def_prop_rw(
          "scheduling_policy",
          [](const EngineArgs& args) {
            return args.scheduling_policy == scheduler::SchedulingPolicy::fcfs ? "fcfs"
                                                                               : "priority";
          },
          [](EngineArgs& args, const std::string& text) {
            args.scheduling_policy = api::parse_scheduling_policy("scheduling_policy", text);
          })
      .def_prop_rw(
          "speculative_config",
          [](const EngineArgs& args) { return args.speculative_config.dump(); },
          [](EngineArgs& args, const std::string& json) {
            args.speculative_config = parse_json(json, "speculative_config");
          },
          "As JSON text.")
      .def_rw("async_scheduling", &EngineArgs::async_scheduling)
      .def_rw("enable_prefix_caching", &EngineArgs::enable_prefix_caching)
      .def_rw("verify_graphs", &EngineArgs::verify_graphs)
      .def_rw("expert_counters", &EngineArgs::expert_counters)
      .def_rw("replay_log", &EngineArgs::replay_log)
      .def_rw("mamba_cache_mode", &EngineArgs::mamba_cache_mode)
      .def_rw("prefix_cache_retention_interval", &EngineArgs::prefix_cache_retention_interval)
      .def_rw("disable_cascade_attn", &EngineArgs::disable_cascade_attn)
      .def_rw("block_size", &EngineArgs::block_size)
      .def_rw("kv_cache_dtype", &EngineArgs::kv_cache_dtype)
      .def_rw("kv_cache_memory_bytes", &EngineArgs::kv_cache_memory_bytes, nb::arg().none())
      .def_rw("num_gpu_blocks_override", &EngineArgs::num_gpu_blocks_override, nb::arg().none())
      .def_rw("max_logprobs", &EngineArgs::max_logprobs);
}

void bind_adapter_arguments(EngineArgsClass& arguments) {
  using api::EngineArgs;
  arguments.def_rw("enable_lora", &EngineArgs::enable_lora)
      .def_rw("max_loras", &EngineArgs::max_loras)
      .def_rw("max_lora_rank", &EngineArgs::max_lora_rank)
      .def_rw("max_cpu_loras", &EngineArgs::max_cpu_loras, nb::arg().none())
      .def_rw("specialize_active_lora", &EngineArgs::specialize_active_lora);
}

void bind_graph_arguments(EngineArgsClass& arguments) {
  using api::EngineArgs;
  arguments.def_rw("attention_backend", &EngineArgs::attention_backend)
      .def_rw("flash_attn_version", &EngineArgs::flash_attn_version)
      .def_rw("flashinfer_prefill", &EngineArgs::flashinfer_prefill)
      .def_rw("enforce_eager", &EngineArgs::enforce_eager)
      .def_prop_rw(
          "optimization_level",
          [](const EngineArgs& args) { return static_cast<int>(args.optimization_level); },
          [](EngineArgs& args, int level) {
            args.optimization_level = config::parse_optimization_level(std::to_string(level));
          })
      .def_prop_rw(
          "compilation_config",
          [](const EngineArgs& args) { return args.compilation_config.dump(); },
          [](EngineArgs& args, const std::string& json) {
            args.compilation_config = parse_json(json, "compilation_config");
          },
          "As JSON text.")
      .def_rw("compile_cache_root", &EngineArgs::compile_cache_root)
      .def_rw("disable_compile_cache", &EngineArgs::disable_compile_cache)
      .def_rw("num_threads", &EngineArgs::num_threads)
      .def_rw("cpu_isa", &EngineArgs::cpu_isa)
      .def_rw("batch_invariant", &EngineArgs::batch_invariant)
      .def_rw("tune", &EngineArgs::tune, nb::arg().none());
}

void bind_engine_args(nb::module_& module) {
  EngineArgsClass arguments(module, "EngineArgs");
  bind_model_choice(arguments);
  bind_model_arguments(arguments);
  bind_scheduler_arguments(arguments);
  bind_adapter_arguments(arguments);
  bind_graph_arguments(arguments);
}

void bind_sampling_params(nb::module_& module) {
  using sampling::SamplingParams;
  nb::class_<SamplingParams>(module, "SamplingParams")
      .def(nb::init<>())
      .def_rw("temperature", &SamplingParams::temperature)
      .def_rw("top_p", &SamplingParams::top_p)
      .def_rw("top_k", &SamplingParams::top_k)
      .def_rw("min_p", &SamplingParams::min_p)
      .def_rw("seed", &SamplingParams::seed, nb::arg().none())
      .def_rw("repetition_penalty", &SamplingParams::repetition_penalty)
      .def_rw("presence_penalty", &SamplingParams::presence_penalty)
      .def_rw("frequency_penalty", &SamplingParams::frequency_penalty)
      .def_rw("max_tokens", &SamplingParams::max_tokens, nb::arg().none())
      .def_rw("min_tokens", &SamplingParams::min_tokens)
      .def_rw("stop", &SamplingParams::stop)
      .def_rw("stop_token_ids", &SamplingParams::stop_token_ids)
      .def_rw("ignore_eos", &SamplingParams::ignore_eos)
      .def_rw("include_stop_str_in_output", &SamplingParams::include_stop_str_in_output)
      .def_rw("skip_special_tokens", &SamplingParams::skip_special_tokens)
      .def_rw("logprobs", &SamplingParams::logprobs, nb::arg().none())
      .def_rw("prompt_logprobs", &SamplingParams::prompt_logprobs, nb::arg().none())
      .def_rw("logprob_token_ids", &SamplingParams::logprob_token_ids)
      .def_rw("logit_bias", &SamplingParams::logit_bias)
      .def_rw("allowed_token_ids", &SamplingParams::allowed_token_ids)
      .def_rw("bad_words", &SamplingParams::bad_words)
      .def(
          "validate",
          [](const SamplingParams& params) {
            constexpr int kAny = std::numeric_limits<int>::max();
            sampling::validate(params, kAny, kAny);
          },
          "Raises ValueError for a field outside its range; token ids and the number of logprobs "
          "are checked by the engine.");
}

}  // namespace

void bind_config(nb::module_& module) {
  bind_engine_args(module);
  bind_sampling_params(module);
  module.def(
      "check_compilation_config",
      [](const std::string& json) {
        auto parsed = config::parse_compilation_config(parse_json(json, "compilation_config"));
        config::validate(parsed.config);
        return parsed.warnings;
      },
      nb::arg("json"),
      "Raises ValueError for what no engine would take; returns warnings.");
}

}  // namespace reprise::python
