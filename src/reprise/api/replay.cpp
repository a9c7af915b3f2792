#include "reprise/api/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/replay_log.h"
#include "reprise/api/options/model_text.h"
#include "reprise/base/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/engine/step_loop.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/structured_output/grammar_compiler.h"

namespace reprise::api {
namespace {

using replay_log::RequestRecord;

/// The repetition ends after the logged tokens, whatever ended the answer.
sampling::SamplingParams params_of(const RequestRecord& logged) {
  sampling::SamplingParams params = logged.params;
  params.max_tokens = std::max(static_cast<int>(logged.token_ids.size()), 1);
  params.min_tokens = std::min(params.min_tokens, *params.max_tokens);
  return params;
}

/// Makes the requests of a log into requests of an engine, and compares their answers.
class Replay {
 public:
  Replay(LoadedEngine& engine, const std::function<void(const ReplayedAnswer&)>& on_answer)
      : engine_(&engine),
        on_answer_(&on_answer),
        also_logged_(on_record_of(engine)),
        loop_(*engine.core, engine.text->tokenizer(), [this](RequestRecord&& record) {
          records_.insert_or_assign(record.number, std::move(record));
        }) {}

  void run(std::span<const RequestRecord> requests) {
    // A few requests wait, so that a batch is filled as soon as a request ends.
    const size_t most = 2 * static_cast<size_t>(engine_->args.max_num_seqs);
    while (!requests.empty() || !live_.empty()) {
      for (; !requests.empty() && live_.size() < most; requests = requests.subspan(1))
        start(requests.front());
      if (live_.empty()) continue;
      loop_.step([this](engine::OutputDelta&& delta) {
        if (delta.finished) finish(delta);
      });
    }
  }

 private:
  void start(const RequestRecord& logged) {
    ReplayedAnswer answer{.logged = &logged};
    if (logged.token_ids.empty() && !logged.vector_digest) return (*on_answer_)(answer);
    try {
      const scheduler::RequestId id = engine_->core->new_request_id();
      loop_.add_request(id, logged.prompt_token_ids, params_of(logged), options_of(logged, answer));
      live_.emplace(static_cast<uint64_t>(id), std::move(answer));
    } catch (const std::exception& error) {
      answer.problem = error.what();
      (*on_answer_)(answer);
    }
  }

  void finish(const engine::OutputDelta& delta) {
    auto live = live_.extract(static_cast<uint64_t>(delta.id));
    auto record = records_.extract(static_cast<uint64_t>(delta.id));
    ReplayedAnswer& answer = live.mapped();
    answer.replayed = std::move(record.mapped());
    if (delta.finish_reason == "error" && answer.logged->finish_reason != "error") {
      answer.problem = delta.error;
    } else {
      answer.difference = replay_log::find_difference(*answer.logged, answer.replayed);
    }
    (*on_answer_)(answer);
    if (also_logged_) also_logged_(std::move(answer.replayed));
  }

  scheduler::RequestOptions options_of(const RequestRecord& logged, ReplayedAnswer& answer) {
    scheduler::RequestOptions options;
    options.client_id = logged.id;
    if (logged.second_text_begin) options.second_text_begin = *logged.second_text_begin;
    if (logged.adapter) set_adapter(*logged.adapter, options, answer);
    if (logged.has_unknown_constraint) {
      throw InvalidArgument("its constraint was made by a program that gave no source for it");
    }
    if (logged.constraint) {
      const auto source =
          std::make_shared<const structured_output::ConstraintSource>(*logged.constraint);
      const auto compiled = engine_->text->grammar_compiler().compile(source->spec);
      options.constraint = structured_output::start_constraint(*source, *compiled);
      options.constraint_source = source;
    }
    return options;
  }

  void set_adapter(const RequestRecord::Adapter& logged,
                   scheduler::RequestOptions& options,
                   ReplayedAnswer& answer) {
    lora::AdapterRegistry* adapters = engine_->adapters.get();
    if (adapters == nullptr) throw InvalidArgument("it has an adapter; give --enable-lora");
    if (!adapters->contains(logged.name))
      adapters->load({.name = logged.name, .path = logged.folder});
    options.adapter = adapters->find(logged.name);
    options.lora_id = options.adapter->id();
    options.lora_name = options.adapter->name();
    if (options.adapter->digest() == logged.digest) return;
    answer.cause = fmt::format("the adapter '{}' in {} is not the one that was logged",
                               logged.name,
                               options.adapter->folder().string());
  }

  LoadedEngine* engine_;
  const std::function<void(const ReplayedAnswer&)>* on_answer_;
  engine::OnRecord also_logged_;  // a replay can be logged as well
  std::unordered_map<uint64_t, ReplayedAnswer> live_;
  std::unordered_map<uint64_t, RequestRecord> records_;  // of requests that end in this step
  engine::StepLoop loop_;
};

}  // namespace

void replay_requests(LoadedEngine& engine,
                     std::span<const RequestRecord> requests,
                     const std::function<void(const ReplayedAnswer&)>& on_answer) {
  Replay(engine, on_answer).run(requests);
}

}  // namespace reprise::api
