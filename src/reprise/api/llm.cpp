#include "reprise/api/llm.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>

#include "reprise/api/async_engine_loop.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/replay_log.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/replicas/replica_router.h"
#include "reprise/base/error.h"
#include "reprise/engine/bad_words.h"
#include "reprise/engine/engine_core.h"
#include "reprise/engine/step_loop.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::api {
namespace {

using Clock = std::chrono::steady_clock;

// Adds what one step produced for a request to the request's answer.
void append(engine::OutputDelta& delta, double seconds, RequestOutput& result) {
  CompletionOutput& output = result.output;
  output.text += delta.text;
  output.token_ids.insert(output.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(output.logprobs));
  if (!delta.token_ids.empty()) {
    result.metrics.latency = seconds;
    if (result.metrics.num_output_tokens == 0) {
      result.metrics.time_to_first_token = seconds;
      result.prompt_logprobs = std::move(delta.prompt_logprobs);
    }
  }
  result.metrics.num_output_tokens = delta.num_output_tokens;
  result.num_cached_tokens = delta.num_cached_tokens;
  if (!delta.finished) return;
  output.finish_reason = std::move(delta.finish_reason);
  output.stop_reason = std::move(delta.stop_reason);
  output.error = std::move(delta.error);
}

}  // namespace

// Several engines work at the same time, so the local engine has a thread too.
struct LLM::Replicas {
  explicit Replicas(LoadedEngine& engine)
      : loop(std::make_unique<AsyncEngineLoop>(
            *engine.core, engine.text->tokenizer(), idle_steps_of(engine), on_record_of(engine))),
        router(engine, *loop) {}
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;
  ~Replicas() {
    router.end_requests();
    loop.reset();
  }

  std::unique_ptr<AsyncEngineLoop> loop;
  ReplicaRouter router;
};

LLM::LLM(const EngineArgs& args, const StartupObserver& observer)
    : LLM(load_engine(args, observer)) {}
LLM::LLM(std::unique_ptr<LoadedEngine> engine)
    : EngineFrontend(std::move(engine)),
      loop_(
          std::make_unique<engine::StepLoop>(*engine_->core, tokenizer(), on_record_of(*engine_))),
      replicas_(engine_->args.replicas != nullptr ? std::make_unique<Replicas>(*engine_)
                                                  : nullptr) {}
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;
LLM::~LLM() = default;

std::vector<RequestOutput> LLM::generate(std::span<const std::string> prompts,
                                         const sampling::SamplingParams& params,
                                         const std::function<void(const StreamDelta&)>& on_delta,
                                         std::span<const scheduler::RequestOptions> options) {
  std::vector<std::vector<int32_t>> token_ids;
  for (const std::string& prompt : prompts) token_ids.push_back(tokenizer().encode(prompt));
  std::vector<RequestOutput> results = generate_token_ids(token_ids, params, on_delta, options);
  for (size_t i = 0; i < prompts.size(); ++i) results[i].prompt = prompts[i];
  return results;
}

std::vector<RequestOutput> LLM::generate_token_ids(
    std::span<const std::vector<int32_t>> prompts,
    const sampling::SamplingParams& wanted,
    const std::function<void(const StreamDelta&)>& on_delta,
    std::span<const scheduler::RequestOptions> options) {
  if (sleeping().any()) throw InvalidArgument("the engine sleeps; wake_up() first");
  if (startup_report().pooling) {
    throw InvalidArgument(
        "this model makes vectors of texts and generates none; serve it and use /v1/embeddings, or "
        "choose --runner generate if it is a decoder");
  }
  if (!options.empty() && options.size() != prompts.size()) {
    throw InvalidArgument(fmt::format(
        "{} options for {} prompts; expected none or as many", options.size(), prompts.size()));
  }
  const Clock::time_point start = Clock::now();
  sampling::SamplingParams params = wanted;
  engine::tokenize_bad_words(params, tokenizer());
  std::vector<RequestOutput> results(prompts.size());
  if (replicas_) {
    run_on_replicas(start, prompts, params, options, results, on_delta);
    return results;
  }
  std::vector<scheduler::RequestId> ids;
  try {
    for (const std::vector<int32_t>& prompt : prompts) {
      const size_t index = ids.size();
      results[index].prompt_token_ids = prompt;
      const scheduler::RequestId id = engine_->core->new_request_id();
      loop_->add_request(
          id, prompt, params, options.empty() ? scheduler::RequestOptions{} : options[index]);
      ids.push_back(id);
    }
  } catch (...) {
    // If one prompt is refused, the call fails: remove the other prompts from the queue.
    for (scheduler::RequestId id : ids) (void)loop_->abort_request(id);
    throw;
  }
  run_to_end(start, ids, results, on_delta);
  return results;
}

void LLM::run_to_end(Clock::time_point start,
                     std::span<const scheduler::RequestId> ids,
                     std::vector<RequestOutput>& results,
                     const std::function<void(const StreamDelta&)>& on_delta) {
  if (ids.empty()) return;
  const auto take = [&](engine::OutputDelta&& delta) {
    // The requests of one call have consecutive ids.
    const size_t index = static_cast<uint64_t>(delta.id) - static_cast<uint64_t>(ids.front());
    append(delta, std::chrono::duration<double>(Clock::now() - start).count(), results[index]);
    if (on_delta && (!delta.text.empty() || delta.finished)) {
      on_delta({.prompt_index = index, .text = delta.text, .finished = delta.finished});
    }
  };
  while (engine_->core->has_unfinished_requests()) loop_->step(take);
}

void LLM::run_on_replicas(Clock::time_point start,
                          std::span<const std::vector<int32_t>> prompts,
                          const sampling::SamplingParams& params,
                          std::span<const scheduler::RequestOptions> options,
                          std::vector<RequestOutput>& results,
                          const std::function<void(const StreamDelta&)>& on_delta) {
  // Shared with callbacks, which may still come after an exception here.
  struct Arrived {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::pair<size_t, engine::OutputDelta>> deltas;
  };
  const auto arrived = std::make_shared<Arrived>();
  std::vector<scheduler::RequestId> ids;
  try {
    for (size_t index = 0; index < prompts.size(); ++index) {
      results[index].prompt_token_ids = prompts[index];
      ids.push_back(replicas_->router.submit(
          prompts[index],
          params,
          [arrived, index](engine::OutputDelta&& delta) {
            {
              const std::lock_guard lock(arrived->mutex);
              arrived->deltas.emplace_back(index, std::move(delta));
            }
            arrived->changed.notify_one();
          },
          options.empty() ? scheduler::RequestOptions{} : options[index],
          start));
    }
  } catch (...) {
    for (const scheduler::RequestId id : ids) replicas_->router.abort(id);
    throw;
  }
  for (size_t num_unfinished = prompts.size(); num_unfinished > 0;) {
    std::unique_lock lock(arrived->mutex);
    arrived->changed.wait(lock, [&] { return !arrived->deltas.empty(); });
    auto [index, delta] = std::move(arrived->deltas.front());
    arrived->deltas.pop_front();
    lock.unlock();
    append(delta, std::chrono::duration<double>(Clock::now() - start).count(), results[index]);
    if (delta.finished) --num_unfinished;
    if (on_delta && (!delta.text.empty() || delta.finished)) {
      on_delta({.prompt_index = index, .text = delta.text, .finished = delta.finished});
    }
  }
}

void LLM::sleep(SleepLevel level) { engine_->sleep(level); }
void LLM::wake_up(EngineParts parts) { engine_->wake_up(parts); }
EngineParts LLM::sleeping() const noexcept { return engine_->sleeping(); }

const cudagraph::DispatchLedger& LLM::ledger() const noexcept { return engine_->core->ledger(); }
const cudagraph::DispatchLedger* LLM::draft_ledger() const noexcept {
  return engine_->core->draft_ledger();
}

}  // namespace reprise::api
